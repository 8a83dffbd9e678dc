"""What a GPU does in one pass, each with a torch twin: full classifier, layers, gathered rows, packed attention."""
