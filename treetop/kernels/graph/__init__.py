"""Graphs of labels: co-occurrence counts, random walks."""
