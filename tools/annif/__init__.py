"""How fast does Annif answer on the same data and machine? (`make bench-annif`; beside it `make bench-serve`)."""
