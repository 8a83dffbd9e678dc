"""From a text to its cluster: a linear classifier whose clusters, found by words alone, have about the same size.

The clusters to learn come from texts averaged with their neighbours by labels (`assemble/annex.py`). The classifier is
learned text by text (softmax, AdaGrad); then each cluster gets a penalty, raised and lowered until sizes are even.
Twin: `slow.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treetop.kernels.runtime.compile import kernel, tight
from treetop.kernels.sparse import F32, Rows, scramble, shuffle

EVENING = 30  # passes that even out the sizes


@tight
def scores(X: Rows, row: Any, W: F32, out: F32) -> None:
    """Write W.x to `out`, features in ascending order."""
    out[:] = np.float32(0)
    for p in range(X.indptr[row], X.indptr[row + np.uint64(1)]):
        x, f = X.values[p], X.indices[p]
        for c in range(len(out)):
            out[c] += x * W[f, c]


@kernel
def best_clusters(X: Rows, W: F32, penalty: F32) -> Any:
    """(rows,) the cluster with the highest score less its penalty; of equals the first."""
    made, here = np.empty(len(X.indptr) - 1, np.int32), np.empty(W.shape[1], np.float32)
    for row in range(len(made)):
        scores(X, np.uint64(row), W, here)
        for c in range(len(here)):
            here[c] -= penalty[c]
        made[row] = np.argmax(here)
    return made


@kernel
def even_out(X: Rows, W: F32, passes: int) -> F32:
    """(clusters,) penalties under which clusters found by words have about the same size."""
    n, k = len(X.indptr) - 1, W.shape[1]
    penalty, best, least = np.zeros(k, np.float32), np.zeros(k, np.float32), n + 1
    for done in range(passes):
        sizes = np.zeros(k)
        for c in best_clusters(X, W, penalty):
            sizes[c] += 1.0
        if np.max(sizes) < least:
            least = int(np.max(sizes))
            best[:] = penalty
        for c in range(k):
            penalty[c] += np.float32(np.log((sizes[c] + 1.0) * k / n) / np.sqrt(1.0 + done))
    return best


@kernel
def learn_clusters(X: Rows, targets: Any, shape: tuple[int, int], seed: Any, epochs: int, rate: float) -> Any:
    """(features, clusters) weights by the cluster of each row, and the clusters' penalties; `shape` of the weights."""
    order, state = np.arange(len(targets)).astype(np.uint32), scramble(np.uint64(seed))
    W, squares, here = np.zeros(shape, np.float32), np.full(shape, np.float32(1e-2)), np.empty(shape[1], np.float32)
    for _ in range(epochs):
        state = shuffle(order, state)
        for row in order:
            scores(X, np.uint64(row), W, here)
            _step(X, np.uint64(row), W, squares, here, targets[row], rate)
    return W, even_out(X, W, EVENING)


@tight
def _step(X: Rows, row: Any, W: F32, squares: F32, here: F32, target: int, rate: float) -> None:
    """One step of the softmax classifier towards `target`; `here` holds the scores and becomes their gradient."""
    high, total = here[0], np.float32(0)
    for c in range(len(here)):
        high = max(high, here[c])
    for c in range(len(here)):
        here[c] = np.exp(here[c] - high)
        total += here[c]
    for c in range(len(here)):
        here[c] /= total
    here[target] -= np.float32(1)
    for p in range(X.indptr[row], X.indptr[row + np.uint64(1)]):
        x, f = X.values[p], X.indices[p]
        for c in range(len(here)):
            g = x * here[c]
            squares[f, c] += g * g
            W[f, c] -= np.float32(rate) * g / np.sqrt(squares[f, c])
