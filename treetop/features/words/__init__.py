"""Word vectors and the small networks over them."""
