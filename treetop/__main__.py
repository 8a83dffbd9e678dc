"""`python -m treetop` is the command `treetop`."""

from treetop.cli.start import main

main()
