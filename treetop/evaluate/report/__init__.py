"""Evaluations and comparisons as self-contained HTML pages."""
