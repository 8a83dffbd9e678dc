"""One-pass GPU kernels, each with a torch twin: full classifier, layers, gathered rows, packed attention."""
