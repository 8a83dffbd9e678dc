"""Labels after training: added, learned further, renamed, merged, retired, restored; the log replayed over a model.

Each edit takes a `Model` and returns a new one: `edit.add(model, {"T9": "what it is about"})`.
"""

from treetop.edit.changes import By, add, learn, merge, rename, restore, retire, undo

__all__ = ["By", "add", "learn", "merge", "rename", "restore", "retire", "undo"]
