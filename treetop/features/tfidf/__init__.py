"""Terms of a text, counted and weighted."""
