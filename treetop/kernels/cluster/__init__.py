"""Rows into clusters: balanced halves (sparse or dense rows), k-means."""
