"""Texts of which a model knows nothing: what it ranks first for them says nothing about them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treetop.core.abilities import MovesToDevice
from treetop.core.texts import Texts
from treetop.core.types import Features, View

TERMS = "tfidf"  # a view of terms, wherever it comes from; the others of an encoder have no empty rows
WORD = re.compile(r"[^\W_]")


class Telling(NamedTuple):
    """Views that tell what is known: those of terms, and whether there are others, of an encoder."""

    terms: tuple[str, ...]
    has_encoder: bool

    @classmethod
    def of(cls, features: Mapping[str, Features], read: Iterable[str]) -> Telling:
        """Of the views that levels read; one that no features make was given, and is empty where nothing is known."""
        nothing, read = Texts.of([]), [view for view in read if view != "none"]
        made = [(view, item) for item in features.values() for view in item.views(nothing)]
        other = {view for view, item in made if view.rpartition("/")[2] != TERMS and isinstance(item, MovesToDevice)}
        terms = tuple(view for view in read if view not in other)
        return cls(terms, len(terms) < len(read))


def unknown_rows(telling: Telling, views: Mapping[str, View], texts: Texts) -> NDArray[np.bool_]:
    """Which texts have no known term in any view of terms and, where an encoder reads them, no letter or digit.

    Views of an encoder are not computed for it. A model that reads no text at all (`none`) knows every text.
    """
    unknown = np.full(len(texts), bool(telling.terms) or telling.has_encoder)
    if telling.has_encoder:
        unknown &= np.fromiter((WORD.search(text) is None for text in texts), bool, len(texts))
    for view in telling.terms:
        if unknown.any():
            rows = views[view]
            unknown &= rows.indptr[1:] == rows.indptr[:-1] if sparse.issparse(rows) else ~np.asarray(rows).any(1)
    return unknown
