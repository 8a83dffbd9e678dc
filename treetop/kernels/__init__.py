"""Numbers only: knows arrays, no word of XMC. Each fast kernel has a slow, plain twin, in `reference.py` or beside."""
