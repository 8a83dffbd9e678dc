"""Counts to tf-idf rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from treetop.kernels.runtime.compile import kernel, kernel_for
from treetop.kernels.text.scanner import I32, I64, types

F64 = types.Array(types.float64, 1, "C", readonly=True)


@kernel
def _sort(keys: Any, m: int, spare: Any, most: int) -> None:
    """Sort the first `m` keys by their upper half, which is at most `most`: few by shifting, many by radix."""
    if m <= 48:
        for gap in (4, 1):
            for i in range(gap, m):
                key, j = keys[i], i
                while j >= gap and keys[j - gap] > key:
                    keys[j] = keys[j - gap]
                    j -= gap
                keys[j] = key
        return
    ends = np.empty(257, np.int64)
    shift = 32
    while most >> (shift - 32) > 0:
        ends[:] = 0
        for i in range(m):
            ends[((keys[i] >> shift) & 255) + 1] += 1
        for digit in range(256):
            ends[digit + 1] += ends[digit]
        for i in range(m):
            digit = (keys[i] >> shift) & 255
            spare[ends[digit]] = keys[i]
            ends[digit] += 1
        for i in range(m):
            keys[i] = spare[i]
        shift += 8


@kernel_for(I64, I32, I32, I32, F64, types.UniTuple(types.boolean, 3))
def weigh(pointers: Any, ids: Any, counts: Any, columns: Any, idf: Any, rules: tuple[bool, bool, bool]) -> Any:
    """(indptr, indices, data) of tf-idf rows with ascending columns; `rules` = (binary, sublinear, l2).

    Empty `counts` mean 1 each, repeated ids add up; empty `columns` mean that ids are columns, -1 drops a term.
    """
    binary, sublinear, l2 = rules
    n = len(pointers) - 1
    indptr = np.zeros(n + 1, np.int64)
    indices, data = np.empty(len(ids), np.int32), np.empty(len(ids), np.float32)
    keys, spare = np.empty(len(ids), np.int64), np.empty(len(ids), np.int64)  # a key is column and count in one number
    values = np.empty(len(ids), np.float64)
    k = 0
    for d in range(n):
        m = 0
        for e in range(pointers[d], pointers[d + 1]):
            column = np.int64(ids[e])
            if len(columns):
                column = np.int64(columns[column])
            if column >= 0:
                keys[m] = (column << 32) | (np.int64(counts[e]) if len(counts) else 1)
                m += 1
        _sort(keys, m, spare, len(idf))
        e, square, row = 0, 0.0, k
        while e < m:
            column, count = keys[e] >> 32, keys[e] & 0xFFFFFFFF
            e += 1
            while e < m and keys[e] >> 32 == column:
                count += keys[e] & 0xFFFFFFFF
                e += 1
            tf = 1.0 if binary or count == 1 else (1.0 + np.log(np.float64(count)) if sublinear else np.float64(count))
            values[k - row] = tf * idf[column]
            square += values[k - row] * values[k - row]
            indices[k] = column
            k += 1
        norm = np.sqrt(square) if l2 and square > 0.0 else 1.0
        for i in range(row, k):
            data[i] = values[i - row] / norm
        indptr[d + 1] = k
    return indptr, indices[:k].copy(), data[:k].copy()
