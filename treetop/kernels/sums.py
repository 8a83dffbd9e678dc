"""Weighted sums of sparse rows, as rows of unit length: many small sparse products without sorting."""

from __future__ import annotations

from typing import Any

import numpy as np

from treetop.core import spill
from treetop.kernels.linear.lanes import lowest_bit
from treetop.kernels.runtime.compile import kernel, tight
from treetop.kernels.runtime.threads import blocks, stream
from treetop.kernels.sparse import F32, U32, Rows

BLOCK = 512  # rows of the result made at a time


@tight
def _add(X: Rows, row: Any, weight: Any, sums: F32, words: Any, tops: Any) -> None:
    for p in range(X.indptr[row], X.indptr[row + np.uint32(1)]):
        f = np.uint64(X.indices[p])
        sums[f] += weight * X.values[p]
        words[f >> np.uint64(6)] |= np.uint64(1) << (f & np.uint64(63))
        tops[f >> np.uint64(12)] |= np.uint64(1) << ((f >> np.uint64(6)) & np.uint64(63))


@tight
def _take(sums: F32, words: Any, tops: Any, features: U32, values: F32) -> Any:
    """Move all marked sums into the front of `features` and `values`, ascending; returns how many and their squares."""
    n, square = np.uint64(0), 0.0
    for t in range(np.uint64(len(tops))):
        while tops[t]:
            w = t * np.uint64(64) + lowest_bit(tops[t])
            tops[t] &= tops[t] - np.uint64(1)
            while words[w]:
                f = w * np.uint64(64) + lowest_bit(words[w])
                words[w] &= words[w] - np.uint64(1)
                value = sums[f]
                sums[f] = np.float32(0)
                if value != np.float32(0):
                    features[n], values[n] = np.uint32(f), value
                    square += float(value) * float(value)
                    n += np.uint64(1)
    return n, square


@kernel
def _sum_block(weights: Rows, X: Rows, first: int, end: int, n_features: int) -> Any:
    """(lengths, features, values) of the unit rows first..end of weights @ X."""
    room = np.uint64(0)
    for p in range(weights.indptr[first], weights.indptr[end]):
        row = weights.indices[p]
        room += X.indptr[row + np.uint32(1)] - X.indptr[row]
    features, values = np.empty(room, np.uint32), np.empty(room, np.float32)
    sums = np.zeros(n_features, np.float32)
    words, tops = np.zeros(n_features // 64 + 1, np.uint64), np.zeros(n_features // 4096 + 1, np.uint64)
    lengths, used = np.zeros(end - first, np.int64), np.int64(0)
    for i in range(first, end):
        for p in range(weights.indptr[i], weights.indptr[i + 1]):
            _add(X, weights.indices[p], weights.values[p], sums, words, tops)
        n, square = _take(sums, words, tops, features[used:], values[used:])
        scale = np.float32(1.0 / np.sqrt(square)) if square > 0.0 else np.float32(0)
        for p in range(used, used + np.int64(n)):
            values[p] *= scale
        lengths[i - first] = n
        used += np.int64(n)
    return lengths, features[:used].copy(), values[:used].copy()


def unit_sums(weights: Rows, X: Rows, n_features: int) -> Rows:
    """Weights @ X with rows of length 1 (a row of zeros stays empty), columns ascending."""
    n, lengths = len(weights.indptr) - 1, [np.zeros(1, np.int64)]
    features, values = spill.Growing(np.uint32), spill.Growing(np.float32)
    for own_lengths, own_features, own_values in stream(
        lambda a, b: _sum_block(weights, X, a, b, n_features), blocks(n, BLOCK)
    ):
        features.append(own_features)
        values.append(own_values)
        lengths.append(own_lengths)
    return Rows(np.cumsum(np.concatenate(lengths)).view(np.uint64), features.array(), values.array())
