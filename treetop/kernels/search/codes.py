"""Vectors as int8 codes: inner products with one query at a quarter of the memory, close enough to choose candidates.

A single query is bound by memory, so reading a byte in the place of a float32 number is what makes it fast.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treetop.kernels.runtime import threads
from treetop.kernels.runtime.compile import kernel
from treetop.kernels.sparse import F32

BLOCK = 1 << 14  # vectors coded at a time
LARGEST = 127


class Codes(NamedTuple):
    """(n, width) codes; vector i is about scale[i] * codes[i]."""

    codes: NDArray[np.int8]
    scale: F32

    @classmethod
    def of(cls, table: F32) -> Codes:
        """The codes of the rows of a table."""
        codes, scale = np.empty(table.shape, np.int8), np.empty(len(table), np.float32)

        def block(start: int, stop: int) -> None:
            codes[start:stop], scale[start:stop] = coded(np.asarray(table[start:stop]))

        threads.run(block, threads.blocks(len(table), BLOCK))
        return cls(codes, scale)


def coded(rows: F32) -> tuple[NDArray[np.int8], F32]:
    """(codes, scale of each row)."""
    scale = np.maximum(np.abs(rows).max(1, initial=0.0), np.float32(1e-30)) / np.float32(LARGEST)
    return np.rint(rows / scale[:, None]).astype(np.int8), scale.astype(np.float32)


def code_dots(codes: Codes, start: int, stop: int, query: F32, bias: F32) -> F32:
    """(stop - start,) approximate inner products of these vectors with a query, plus their biases."""
    numbers, scale = coded(query[None])
    made = np.empty(stop - start, np.float32)
    _code_dots(codes.codes[start:stop], codes.scale[start:stop], numbers[0], scale[0], bias[start:stop], made)
    return made


@kernel
def _code_dots(codes: Any, scale: Any, query: Any, size: Any, bias: Any, made: Any) -> None:
    for j in range(len(codes)):
        total = np.int32(0)
        for k in range(codes.shape[1]):
            total += np.int32(codes[j, k]) * np.int32(query[k])
        narrow = np.int32(total)  # numba adds in 64 bits; cut here, the compiler adds in 32, which is twice as fast
        made[j] = np.float32(narrow) * scale[j] * size + bias[j]
