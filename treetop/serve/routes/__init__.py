"""What can be asked? One file per kind of question."""
