"""Boosted trees over what the sources say of held-out pairs."""

from __future__ import annotations

import numpy as np

from treetop.assemble.held_out.judged import Judged
from treetop.core.dataset import Ints
from treetop.core.types import Floats
from treetop.kernels.boosting import Boosting, binned, boost
from treetop.predict.fuse.boosted import Boosted, inputs

HOW = Boosting()
CUTS = 63  # edges of a feature's bins: half by the quantiles of all pairs, half by those of the right ones


def learn_boosted(judged: Judged, counts: Ints) -> Boosted:
    """Trees with least log loss, monotone in all but the label's frequency."""
    X = inputs(judged.pairs, counts)
    edges = bin_edges(X, judged.hit)
    monotone = np.arange(X.shape[1]) < X.shape[1] - 1
    return Boosted(edges, boost(binned(X, edges), judged.hit, judged.weight, monotone, HOW))


def bin_edges(X: Floats, hit: Floats) -> Floats:
    """(features, CUTS) rising cuts of every feature."""
    right = X[hit > 0] if (hit > 0).any() else X
    shares = np.linspace(0, 1, CUTS // 2 + 1)
    found = np.concatenate([np.quantile(X, shares, axis=0), np.quantile(right, shares[:-1], axis=0)])
    made: Floats = np.sort(found, axis=0)[-CUTS:].T.astype(np.float32)
    return np.ascontiguousarray(made)
