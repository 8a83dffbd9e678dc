"""Labels as the features of their own texts."""

from __future__ import annotations

from typing import Any

from treetop.core.dataset import LabelSet
from treetop.core.errors import InputError
from treetop.core.texts import Texts
from treetop.core.types import Features


def label_text(labels: LabelSet, features: Features, view: str) -> Any:
    """Z (labels x features): the view of each label's text, or of its name where the text is empty."""
    if not labels.texts.offsets[-1] and labels.names == labels.ids:
        raise InputError("labels: no label has a text or a name beside its id. Use labels=pifa, or give label texts.")
    words = Texts.of(text or name for text, name in zip(labels.texts, labels.names, strict=True))
    return features.views(words)[view]
