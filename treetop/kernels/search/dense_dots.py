"""Inner products of dense rows with a table of vectors: a few rows with all of it, or each with its candidates.

Bound by memory, so every vector is read once, where it lies. Unlike a BLAS they bring no threads of their own, whose
waiting costs more than one text's product.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treetop.kernels.runtime.compile import reassociating
from treetop.kernels.sparse import F32

FEW = 4  # rows for which no BLAS is woken


@reassociating
def all_dots(table: F32, rows: F32) -> Any:
    """(rows, vectors)."""
    products = np.empty((len(rows), len(table)), np.float32)
    for j in range(len(table)):
        for i in range(len(rows)):
            total = np.float32(0)
            for k in range(rows.shape[1]):
                total += table[j, k] * rows[i, k]
            products[i, j] = total
    return products


def dots(table: F32, rows: F32) -> Any:
    """(rows, vectors), by the BLAS where there are many rows."""
    return all_dots(table, rows) if len(rows) <= FEW else rows @ table.T


@reassociating
def gathered_dots(table: F32, rows: F32, ends: Any, ids: Any, products: F32) -> None:
    """products[p - ends[0]] = <rows[i], table[ids[p]]> for p in ends[i]..ends[i + 1]; `ids` begins at ends[0]."""
    first = ends[0]
    for i in range(len(rows)):
        for p in range(ends[i] - first, ends[i + 1] - first):
            total = np.float32(0)
            for k in range(rows.shape[1]):
                total += table[ids[p], k] * rows[i, k]
            products[p] = total
