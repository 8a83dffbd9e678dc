"""Labels after training: added, renamed, merged, retired, restored; the log replayed over a trained model.

Each edit takes a `Model` and returns a new one: `edit.add(model, {"T9": "what it is about"})`.
"""

from treetop.edit.changes import By, add, merge, rename, restore, retire, undo

__all__ = ["By", "add", "merge", "rename", "restore", "retire", "undo"]
