"""What formats share: lines, cells, fields, rows, and the limits on what is read."""
