"""Labels as the features of their own texts; and which texts are equal."""

from __future__ import annotations

from typing import Any

import numpy as np

from treetop.core.dataset import Ints, LabelSet
from treetop.core.errors import InputError
from treetop.core.log import logger
from treetop.core.texts import Texts
from treetop.core.types import Features
from treetop.labels.source import Source


def describe(source: Source) -> Any:
    """The description `text`."""
    return label_text(source.labels, source.text_features, source.view)


def label_text(labels: LabelSet, features: Features, view: str) -> Any:
    """Z (labels x features): the view of each label's text, or of its name where the text is empty."""
    if not have_words(labels):
        raise InputError(
            "label_features: no label has a text or a name beside its id. Use label_features=pifa, or give label texts."
        )
    return features.views(label_words(labels))[view]


def have_words(labels: LabelSet) -> bool:
    """Whether any label has a text or a name beside its id."""
    return bool(labels.texts.offsets[-1]) or labels.names != labels.ids


def tell_wordless(labels: LabelSet, who: str) -> None:
    """Warn, for what learns from label texts, where none is to be had."""
    if not have_words(labels):
        logger.warning(
            "%s: no label has a text or a name beside its id; ids are read in their place. Where ids are no words, put "
            "what labels mean into a labels file (docs/formats.md).",
            who,
        )


def label_words(labels: LabelSet) -> Texts:
    """The text of each label, or its name where there is none."""
    return texts_of(labels.texts, labels.names)


def texts_of(texts: Texts, names: Texts) -> Texts:
    """What is read for labels: their texts, or their names where there is none."""
    return Texts.of([text or name for text, name in zip(texts, names, strict=True)])


def first_of_text(texts: Texts) -> Ints:
    """(n,) for each text the number of the first that equals it, whatever the case and the blanks."""
    seen: dict[str, int] = {}
    return np.array([seen.setdefault(plain(text), i) for i, text in enumerate(texts)], np.int64)


def plain(text: str) -> str:
    """A text by which equal ones are found."""
    return " ".join(text.lower().split())
