"""Labels that a model cannot tell apart: their vectors (or weights) are each other's nearest and nearly the same.

Such labels stand on the same training texts: two labels for one thing, or one that always comes with the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from treetop.core.abilities import HasLabelVectors
from treetop.core.dataset import RETIRED, Ints
from treetop.core.types import Floats, Level
from treetop.evaluate.match import Matches

LABELS = 2000  # compared, the most frequent ones
LEAST = 5  # training texts; the vector of a rarer label is that of its texts
NEAR = 0.9  # cosine
BLOCK = 500  # labels compared with all others at a time


class Pair(NamedTuple):
    """Columns of two labels, the more frequent first, and the cosine of their vectors."""

    columns: tuple[int, int]
    similarity: float


def inseparable(levels: Sequence[Level], matches: Matches, n: int = 30) -> list[Pair]:
    """Up to `n` pairs, the most alike first; none where labels have no vectors."""
    rank = levels[-1].rank if levels else None
    if not isinstance(rank, HasLabelVectors):
        return []
    counts = matches.counts[: rank.n]  # labels added later have vectors of other kinds
    order = np.lexsort((np.arange(len(counts)), -counts))[:LABELS]
    chosen = order[(counts[order] >= LEAST) & (matches.labels.status[order] != RETIRED)]
    if len(chosen) < 2:
        return []
    best, similar = _nearest(_units([rank.vector(column) for column in chosen.tolist()]))
    mutual = (best[best] == np.arange(len(best))) & (np.arange(len(best)) < best) & (similar >= NEAR)
    places = np.flatnonzero(mutual)
    places = places[np.lexsort((places, -similar[places]))][:n]
    return [Pair((int(chosen[p]), int(chosen[best[p]])), min(float(similar[p]), 1.0)) for p in places.tolist()]


def _units(vectors: Sequence[Any]) -> Any:
    """(labels, width) vectors at length 1, sparse or dense as they are; zeros stay."""
    if sparse.issparse(vectors[0]):
        table = sparse.vstack(vectors, format="csr")
        lengths = np.sqrt(np.asarray(table.multiply(table).sum(1), np.float64)).ravel()
        return sparse.diags(1.0 / np.where(lengths > 0, lengths, 1.0)) @ table
    dense = np.stack(vectors).astype(np.float32)
    return dense / np.maximum(np.linalg.norm(dense, axis=1, keepdims=True), 1e-37)


def _nearest(table: Any) -> tuple[Ints, Floats]:
    """Of each row the other row of the largest cosine, and that."""
    n = table.shape[0]
    best, similar = np.zeros(n, np.int64), np.zeros(n, np.float32)
    for start in range(0, n, BLOCK):
        products = table[start : start + BLOCK] @ table.T
        products = np.asarray(products.toarray() if sparse.issparse(products) else products, np.float32)
        rows = np.arange(len(products))
        products[rows, start + rows] = -2.0
        best[start + rows] = products.argmax(1)
        similar[start + rows] = products[rows, best[start + rows]]
    return best, similar
