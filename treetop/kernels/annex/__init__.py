"""Embeddings that keep neighbours (AnnexML): clusters of texts, a linear map for each, and search in a graph."""
