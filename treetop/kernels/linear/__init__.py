"""Solvers of L2-regularised linear problems, many at a time."""
