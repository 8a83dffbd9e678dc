"""What a trained model does: answers, evaluates, explains, keeps texts, changes its labels, and lies in a folder.

model.py      the model: predict, evaluate, explain, save, load
views.py      texts as features see them
explain.py    why a text gets its labels
documents.py  the training texts it may keep
remarks.py    texts that are read in part, and those that are labels themselves
labels.py     labels after training, as edit/ changes them
folder.py     the model folder, written and opened
display.py    what a prompt and a notebook print
"""

from treetop.model.model import UNCALIBRATED, Label, Model, load

__all__ = ["UNCALIBRATED", "Label", "Model", "load"]
