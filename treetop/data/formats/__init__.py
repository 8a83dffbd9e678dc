"""One file per format: how it is recognised, read and written."""
