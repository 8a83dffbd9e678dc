"""Scores of a level of a tree and the best of them: one step of a beam search."""
