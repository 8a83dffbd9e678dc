"""Label representations from label texts; and which label texts are equal."""

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
            "label_features: no label has a text or a name other than its id. Use label_features=pifa, or give label "
            "texts."
        )
    return features.views(label_words(labels))[view]


def have_words(labels: LabelSet) -> bool:
    """Whether any label has a text or a name other than its id."""
    return bool(labels.texts.offsets[-1]) or labels.names != labels.ids


def warn_wordless(labels: LabelSet, who: str) -> None:
    """Warn if a recipe learns from label texts but no label has one."""
    if not have_words(labels):
        logger.warning(
            "%s: no label has a text or a name other than its id; ids are read instead. Where ids are not words, put "
            "what labels mean into a labels file (docs/formats.md).",
            who,
        )


def label_words(labels: LabelSet) -> Texts:
    """The text of each label, or its name where there is none."""
    return texts_of(labels.texts, labels.names)


def texts_of(texts: Texts, names: Texts) -> Texts:
    """The text of each label, or its name if the text is empty."""
    return Texts.of([text or name for text, name in zip(texts, names, strict=True)])


def first_of_text(texts: Texts) -> Ints:
    """(n,) for each text the index of the first equal one, ignoring case and white space."""
    seen: dict[str, int] = {}
    return np.array([seen.setdefault(plain(text), i) for i, text in enumerate(texts)], np.int64)


def plain(text: str) -> str:
    """A text in the normal form by which texts are compared."""
    return " ".join(text.lower().split())
