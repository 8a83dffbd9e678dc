"""From numbered leaves to levels: neighbours in tree order share a parent."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treetop.core.types import LabelTree


def chain(leaf: NDArray[np.int32], n_leaves: int, *, width: int, top: int) -> LabelTree:
    """Levels above the labels: `width` neighbours become one node until at most `top` are left.

    `leaf` gives each label's leaf in tree order, so that code // width is the parent (PECOS' `nr_splits`, `min_codes`).
    """
    parents = [leaf.astype(np.int32)]
    codes = n_leaves
    while codes > top:
        parents.append((np.arange(codes) // width).astype(np.int32))
        codes = -(-codes // width)
    parents.append(np.zeros(codes, np.int32))
    return LabelTree(tuple(reversed(parents)))


def shallow(leaf: NDArray[np.int32], n_leaves: int) -> LabelTree:
    """One level of clusters over the labels."""
    return chain(leaf, n_leaves, width=2, top=n_leaves)
