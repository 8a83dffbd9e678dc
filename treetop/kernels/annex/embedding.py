"""A linear map under which a text is nearer to its neighbours by labels than to random texts of its cluster.

Loss of a text: -log softmax over scale * cosine, of one neighbour among random others (as in DSSM), by AdaGrad, a text
at a time. All sides share the map. Sums over a vector may be reordered, in the same way on every call. Twin: `slow.py`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treetop.kernels.runtime.compile import kernel, reassociating, tight
from treetop.kernels.sparse import F32, Rows, scramble, shuffle


class Learning(NamedTuple):
    """How a map is learned."""

    width: int = 50
    epochs: int = 10
    negatives: int = 10
    scale: float = 10.0  # inverse temperature of the cosine
    rate: float = 0.1


@reassociating
def dot(a: F32, b: F32) -> Any:
    """The inner product."""
    total = np.float32(0)
    for k in range(len(a)):
        total += a[k] * b[k]
    return total


@tight
def project(X: Rows, row: Any, V: F32, out: F32) -> None:
    """Write V.x to `out`, features in ascending order."""
    out[:] = np.float32(0)
    for p in range(X.indptr[row], X.indptr[row + np.uint64(1)]):
        x, f = X.values[p], X.indices[p]
        for k in range(len(out)):
            out[k] += x * V[f, k]


@tight
def _next(state: Any) -> Any:
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    return state ^ (state << np.uint64(17))


@tight
def _below(state: Any, n: Any) -> Any:
    """A random number below n."""
    return ((state >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32)


@kernel
def random_map(n_features: int, width: int, seed: Any) -> F32:
    """Normal values of length about 1 for each feature: at first, cosines are about those of the texts."""
    state, made = scramble(np.uint64(seed)), np.empty((n_features, width), np.float32)
    for f in range(n_features):
        for k in range(width):
            total = 0.0
            for _ in range(12):  # a sum of twelve uniform values is nearly normal
                state = _next(state)
                total += np.float64(state >> np.uint64(11)) / 9007199254740992.0
            made[f, k] = (total - 6.0) / np.sqrt(np.float64(width))
    return made


@tight
def gradients(E: F32, lengths: F32, n: int, scale: float, G: F32, cosines: F32) -> None:
    """Write the derivative of the loss by each E[i] to G[i]: row 0 is the text, 1 its neighbour, others are random."""
    top = np.float32(-np.inf)
    for i in range(1, n):
        cosines[i] = dot(E[0], E[i]) / (lengths[0] * lengths[i])
        top = max(top, cosines[i])
    total = np.float32(0)
    for i in range(1, n):
        total += np.exp(np.float32(scale) * (cosines[i] - top))
    G[0] = np.float32(0)
    for i in range(1, n):
        share = np.exp(np.float32(scale) * (cosines[i] - top)) / total
        slope = np.float32(scale) * (share - np.float32(1 if i == 1 else 0))
        both = slope / (lengths[0] * lengths[i])
        own, other = slope * cosines[i] / (lengths[0] * lengths[0]), slope * cosines[i] / (lengths[i] * lengths[i])
        for k in range(E.shape[1]):
            G[0, k] += both * E[i, k] - own * E[0, k]
            G[i, k] = both * E[0, k] - other * E[i, k]


@tight
def _descend(X: Rows, row: Any, V: F32, squares: F32, g: F32, rate: float) -> None:
    for p in range(X.indptr[row], X.indptr[row + np.uint64(1)]):
        x, f = X.values[p], X.indices[p]
        for k in range(len(g)):
            step = x * g[k]
            squares[f, k] += step * step
            V[f, k] -= np.float32(rate) * step / np.sqrt(squares[f, k])


@kernel
def learn_map(X: Rows, ends: Any, near: Any, n_features: int, seed: Any, how: Learning) -> F32:
    """(features, width); neighbours of row i are near[ends[i] : ends[i + 1]], all of them rows of X."""
    n = len(X.indptr) - 1
    V, order = random_map(n_features, how.width, seed), np.arange(n).astype(np.uint32)
    squares = np.full((n_features, how.width), np.float32(1e-3))
    state = scramble(np.uint64(seed) + np.uint64(1))
    most = how.negatives + 2
    E, G = np.empty((most, how.width), np.float32), np.empty((most, how.width), np.float32)
    rows, lengths, cosines = np.empty(most, np.uint64), np.empty(most, np.float32), np.empty(most, np.float32)
    for _ in range(how.epochs):
        state = shuffle(order, state)
        for row in order:
            first, count = ends[row], ends[row + 1] - ends[row]
            if count == 0:
                continue
            state = _next(state)
            rows[0], rows[1], m = row, near[first + np.int64(_below(state, count))], 0
            for i in range(most):
                if i > 1:
                    state = _next(state)
                    rows[m] = _below(state, n)
                    if rows[m] == rows[0] or rows[m] == rows[1]:
                        continue
                elif i == 1:
                    rows[m] = rows[1]
                project(X, rows[m], V, E[m])
                lengths[m] = np.sqrt(dot(E[m], E[m]))
                if lengths[m] > 0:
                    m += 1
                elif i < 2:
                    break
            if m < 3:
                continue
            gradients(E, lengths, m, how.scale, G, cosines)
            for i in range(m):
                _descend(X, rows[i], V, squares, G[i], how.rate)
    return V


@kernel
def unit_projections(X: Rows, V: F32) -> F32:
    """(rows, width) projections of length 1; a text without known features stays at 0."""
    made = np.empty((len(X.indptr) - 1, V.shape[1]), np.float32)
    for row in range(len(made)):
        project(X, np.uint64(row), V, made[row])
        length = np.sqrt(dot(made[row], made[row]))
        if length > 0:
            for k in range(V.shape[1]):
                made[row, k] /= length
    return made
