"""`python -m treetop` is the command `treetop`."""

from treetop.cli.main import main

main()
