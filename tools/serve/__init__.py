"""How fast and how steady is the server? Load at a fixed rate on a real one (`make bench-serve`)."""
