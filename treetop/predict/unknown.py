"""Texts of which a model knows nothing: what it ranks first for them says nothing about them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treetop.core.abilities import MovesToDevice
from treetop.core.texts import Texts
from treetop.core.types import Features, View

TERMS = "tfidf"  # a view of terms, wherever it comes from; the others of an encoder have no empty rows
WORD = re.compile(r"[^\W_]")


def unknown_rows(
    features: Mapping[str, Features], read: Iterable[str], views: Mapping[str, View], texts: Texts
) -> NDArray[np.bool_]:
    """Which texts have no known term in any view of terms and, where an encoder reads them, no letter or digit.

    Views of an encoder are not computed for it; one that no features make was given, and is empty where nothing is
    known. A model that reads no text at all (`none`) knows every text.
    """
    read = [view for view in read if view != "none"]
    made, terms = _views(features)
    terms |= {view for view in read if view not in made}
    unknown = np.full(len(texts), bool(read))
    if any(view not in terms for view in read):
        unknown &= np.fromiter((WORD.search(text) is None for text in texts), bool, len(texts))
    for view in read:
        if view in terms and unknown.any():
            rows = views[view]
            unknown &= np.diff(rows.indptr) == 0 if sparse.issparse(rows) else ~np.asarray(rows).any(1)
    return unknown


def _views(features: Mapping[str, Features]) -> tuple[set[str], set[str]]:
    """Names of all views, and of those that are cheap to compute and empty where nothing is known."""
    nothing = Texts.of([])
    made = [(view, item) for item in features.values() for view in item.views(nothing)]
    cheap = {view for view, item in made if view.rpartition("/")[2] == TERMS or not isinstance(item, MovesToDevice)}
    return {view for view, _ in made}, cheap
