"""Transformers: where they come from, their tokens, layers and poolings."""
