"""The nearest rows of a table: inverted index, inner products, the best k."""
