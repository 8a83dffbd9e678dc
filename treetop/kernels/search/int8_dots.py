"""Cosines of one vector with a table of vectors of eight bits a value, in whole numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treetop.kernels.runtime.compile import kernel
from treetop.kernels.runtime.threads import blocks, run

ROWS = 1 << 14  # vectors of the table at a time


@kernel
def _block(table: Any, query: Any, products: Any, squares: Any) -> None:
    for i in range(len(table)):
        product, square = np.int32(0), np.int32(0)
        for k in range(table.shape[1]):
            value = np.int32(table[i, k])
            product += value * np.int32(query[k])
            square += value * value
        products[i], squares[i] = product, square


def int8_dots(table: NDArray[np.int8], query: NDArray[np.int8]) -> NDArray[np.float32]:
    """(vectors,) cosines; 0 for a vector of zeros. Widths up to 100,000 do not overflow."""
    products, squares = np.empty(len(table), np.int32), np.empty(len(table), np.int32)
    run(lambda a, b: _block(table[a:b], query, products[a:b], squares[a:b]), blocks(len(table), ROWS))
    length = np.sqrt(float((query.astype(np.int64) ** 2).sum()))
    return (products / np.maximum(np.sqrt(squares) * length, 1e-12)).astype(np.float32)


def int8_dots_slow(table: NDArray[np.int8], query: NDArray[np.int8]) -> NDArray[np.float32]:
    """The same by float64 (slow twin)."""
    wide, row = table.astype(np.float64), query.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1) * np.linalg.norm(row)
    return np.asarray(wide @ row / np.maximum(lengths, 1e-12), np.float32)
