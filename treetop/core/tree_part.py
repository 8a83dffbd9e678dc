"""Boosted symmetric trees as stored in a model folder: bins of features, and one table per tree."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treetop.core.errors import ModelError
from treetop.core.part_checks import DAMAGED, floats, number
from treetop.core.store import Part

DEEPEST = 12
Stored = tuple[float, NDArray[np.int32], NDArray[np.uint8], NDArray[np.float32]]  # base, feature, cut, leaf


def tree_arrays(edges: NDArray[np.float32], trees: Stored) -> dict[str, NDArray[Any]]:
    """Bins and trees as arrays of a part; the base is a setting."""
    _, feature, cut, leaf = trees
    return {"edges": edges, "feature": feature, "cut": cut, "leaf": leaf}


def read_trees(part: Part) -> tuple[NDArray[np.float32], Stored]:
    """(edges (features, cuts), trees) that `tree_arrays` stored, checked to fit together."""
    edges = floats(part, "edges", None, None)
    n, cuts = edges.shape
    feature, cut = part.array("feature", "<i4", None, None), part.array("cut", "|u1", None, None)
    leaf = floats(part, "leaf", len(feature), None)
    depth = feature.shape[1]
    known = feature.size == 0 or (feature.min() >= 0 and feature.max() < n)
    sound = cut.shape == feature.shape and depth <= DEEPEST and leaf.shape[1] == 1 << depth and known
    if not sound or cuts > 255 or (np.diff(edges) < 0).any():
        raise ModelError(f"{part.kind}: its trees do not fit together. {DAMAGED}")
    return edges, (number(part, "base"), feature, cut, leaf)
