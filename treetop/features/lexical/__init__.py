"""Names of labels found in texts."""
