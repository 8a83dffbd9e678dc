"""Slow twins of `clusters.py`, `embedding.py` and `search.py`: plain numpy, one text at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from treetop.kernels.annex.search import Learner


def step_to_cluster(x: Any, W: Any, squares: Any, target: int, rate: float) -> tuple[Any, Any]:
    """(weights, sums of squares) after one step of the softmax classifier; x is a dense text."""
    scores = x @ W
    shares = np.exp(scores - scores.max())
    shares /= shares.sum()
    shares[target] -= 1.0
    gradient = np.outer(x, shares)
    squares = squares + gradient**2
    return W - rate * gradient / np.sqrt(squares), squares


def loss(E: Any, scale: float) -> float:
    """-log softmax of the cosine with row 1 among those with all others of row 0."""
    unit = E / np.linalg.norm(E, axis=1, keepdims=True)
    cosines = scale * (unit[1:] @ unit[0])
    return float(np.log(np.exp(cosines - cosines.max()).sum()) + cosines.max() - cosines[0])


def nearest(x: Any, learner: Learner, k: int) -> list[tuple[int, float]]:
    """(document, cosine) of the nearest texts of a dense text's cluster, all compared."""
    scores = x @ learner.W.astype(np.float64) - learner.penalty
    cluster = int(np.argmax(scores))
    rows = slice(int(learner.row_ptr[cluster]), int(learner.row_ptr[cluster + 1]))
    vector = x[learner.row_feature[rows]] @ learner.V[rows].astype(np.float64)
    length = float(np.linalg.norm(vector))
    if length == 0.0:
        return []
    docs = slice(int(learner.doc_ptr[cluster]), int(learner.doc_ptr[cluster + 1]))
    cosines = learner.vectors[docs].astype(np.float64) @ vector / length
    pairs = sorted(zip(learner.docs[docs].tolist(), cosines.tolist(), strict=True), key=lambda pair: -pair[1])
    return [pair for pair in pairs[:k] if pair[1] > 0]
