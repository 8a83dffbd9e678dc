"""The command line: one file per command; progress on standard error, results on standard output."""
