"""Inner products of one sparse vector with every function of a level: which labels have weights like it."""

from __future__ import annotations

from typing import Any

import numpy as np

from treetop.kernels.runtime.compile import kernel
from treetop.kernels.sparse import F32
from treetop.kernels.tree.chunks import ODD, Chunks, features_of, plain_weights, slot_at, weight_at


@kernel
def _products(chunks: Chunks, table: F32) -> Any:
    """All weights are read once, in order; `table` holds the vector by the names of its features."""
    sums = np.zeros(len(chunks.ids), np.float32)
    for c in range(len(chunks.slot_ptr) - 1):
        first, end = np.uint64(chunks.slot_ptr[c]), np.uint64(chunks.slot_ptr[c + 1])
        shift, base = np.uint64(chunks.shifts[c]), np.uint64(chunks.row_ptr[c])
        p, last, rows_end = chunks.entry_ptr[c], chunks.entry_ptr[c + 1], np.uint64(chunks.row_ptr[c + 1])
        for b in range(chunks.bucket_ptr[c + 1] - chunks.bucket_ptr[c] - 1):
            bucket = chunks.bucket_ptr[c] + b
            stop = min(base + np.uint64(chunks.buckets[bucket + 1, 0]), rows_end)
            for row in range(base + np.uint64(chunks.buckets[bucket, 0]), stop):
                x = table[((np.uint64(b) << shift) | np.uint64(chunks.lows[row])) & np.uint64(len(table) - 1)]
                stop_p = min(p + np.int64(chunks.counts[row]), last)
                if x != 0:
                    for q in range(p, stop_p):
                        slot = first + np.uint64(slot_at(chunks.slots, q, end - first))
                        if slot < end:
                            sums[slot] += x * weight_at(chunks.weights, q)
                p = stop_p
    return sums


def products(chunks: Chunks, features: Any, values: Any) -> F32:
    """(slots,) float32, weights with their scale."""
    bits = int(chunks.sizes[1])
    table = np.zeros(1 << bits, np.float32)
    table[(features.astype(np.uint64) * ODD) & np.uint64((1 << bits) - 1)] = values
    sums: F32 = _products(chunks, table)
    return sums * chunks.scale if len(chunks.scale) else sums


def products_slowly(chunks: Chunks, features: Any, values: Any) -> F32:
    """The same function by function: the twin of `products`."""
    known = dict(zip(features.tolist(), values.tolist(), strict=True))
    sums = np.zeros(len(chunks.ids))
    for chunk in range(len(chunks.slot_ptr) - 1):
        for slot in range(int(chunks.slot_ptr[chunk]), int(chunks.slot_ptr[chunk + 1])):
            own, entries = features_of(chunks, chunk, slot - int(chunks.slot_ptr[chunk]))
            weights = plain_weights(chunks.weights[entries]) * (chunks.scale[slot] if len(chunks.scale) else 1.0)
            sums[slot] = sum(known.get(f, 0.0) * w for f, w in zip(own.tolist(), weights.tolist(), strict=True))
    return sums.astype(np.float32)
