"""Inner products of dense rows with their own candidates out of a table, each read where it lies."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from treetop.kernels.sparse import F32


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def gathered_dots(table: F32, rows: F32, ends: Any, ids: Any, made: F32) -> None:
    """made[p - ends[0]] = <rows[i], table[ids[p]]> for p in ends[i]..ends[i + 1]; `ids` begins at ends[0]."""
    first = ends[0]
    for i in range(len(rows)):
        for p in range(ends[i] - first, ends[i + 1] - first):
            total = np.float32(0)
            for k in range(rows.shape[1]):
                total += table[ids[p], k] * rows[i, k]
            made[p] = total
