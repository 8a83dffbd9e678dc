"""How kernels are compiled, cached and run on several threads."""
