"""Solvers of L2-regularised linear classification problems, many at a time."""
