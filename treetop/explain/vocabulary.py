"""What the vocabulary says of a label, as answers show it."""

from __future__ import annotations

from treetop.core.dataset import LabelSet
from treetop.explain.explanation import Named, Vocabulary


def vocabulary(labels: LabelSet, column: int) -> Vocabulary | None:
    """Alternative names, broader and related labels of a label; None where there are none."""
    if labels.thesaurus is None:
        return None
    alt, *relations = labels.thesaurus.of_label(column)
    broader, related = ([Named(*labels.shown(other)) for other in columns] for columns in relations)
    return Vocabulary(alt, broader, related) if alt or broader or related else None
