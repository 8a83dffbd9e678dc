"""What maintainers run and users never need: nothing here is in the wheel."""
