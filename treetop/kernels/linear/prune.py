"""Pruning of a solved problem: weights above the threshold, and the largest of those."""

from __future__ import annotations

from typing import Any

import numpy as np

from treetop.kernels.runtime.compile import tight
from treetop.kernels.sparse import F32, U32, Local


@tight
def collect(local: Local, solved: Any, lane: int, rule: Any, room: Any) -> int:
    """Append the weights of a lane that reach the threshold to `room` and zero the lane; returns their number.

    `solved` = (weights, duals, sides) of all lanes; `rule` = (threshold, whether duals are log odds of their costs).
    """
    w, alpha, side = solved
    features, values = room
    found, (threshold, odds) = 0, rule
    for j in range(len(local.features)):
        weight = w[j, lane]
        w[j, lane] = 0.0
        if abs(weight) >= threshold and weight != 0.0:
            features[found], values[found] = local.features[j], weight
            found += 1
    for i in range(len(alpha)):
        begin, end = local.alone_indptr[i], local.alone_indptr[i + 1]
        if begin == end:
            continue
        dual = alpha[i, lane]
        if odds:
            dual = abs(side[i, lane]) / (np.float32(1) + np.float32(np.exp(-dual)))
        dual = np.copysign(dual, side[i, lane])
        for p in range(begin, end):
            weight = dual * local.alone_values[p]
            if abs(weight) >= threshold and weight != 0.0:
                features[found], values[found] = local.alone_features[p], weight
                found += 1
    return found


@tight
def _kth_size(values: F32, bias: Any, heap: F32) -> Any:
    """The k-th largest |value|, the bias counted in, by a heap of k."""
    size, k = 0, len(heap)
    for p in range(len(values) + 1):
        value = abs(values[p]) if p < len(values) else abs(bias)
        if size < k:
            at = size
            size += 1
            while at > 0 and heap[(at - 1) >> 1] > value:
                heap[at] = heap[(at - 1) >> 1]
                at = (at - 1) >> 1
            heap[at] = value
        elif value > heap[0]:
            at, down = 0, 1
            while down < k:
                if down + 1 < k and heap[down + 1] < heap[down]:
                    down += 1
                if heap[down] >= value:
                    break
                heap[at] = heap[down]
                at, down = down, 2 * down + 1
            heap[at] = value
    return heap[0]


@tight
def keep_largest(features: U32, values: F32, bias: Any, spare: F32) -> tuple[int, Any]:
    """Keep the len(spare) largest weights, the bias among them; equal ones by lower id. Returns count and bias."""
    n, most = len(values), len(spare)
    if most == 0 or n + (bias != 0.0) <= most:
        return n, bias
    cut = _kth_size(values, bias, spare)
    above, equal = int(abs(bias) > cut), 0
    for p in range(n):
        above += abs(values[p]) > cut
        equal += abs(values[p]) == cut
    room = most - above  # for weights of exactly the cut; the bias, the last feature, comes after them
    kept_bias = bias if abs(bias) > cut or (abs(bias) == cut and room > equal) else np.float32(0)
    last = np.int64(-1) if room > 0 else np.int64(-2)
    for _ in range(min(room, equal)):  # the room-th lowest feature among equals
        lowest = np.int64(1 << 40)
        for p in range(n):
            if abs(values[p]) == cut and last < np.int64(features[p]) < lowest:
                lowest = np.int64(features[p])
        last = lowest
    kept = 0
    for p in range(n):
        if abs(values[p]) > cut or (abs(values[p]) == cut and np.int64(features[p]) <= last):
            features[kept], values[kept] = features[p], values[p]
            kept += 1
    return kept, kept_bias
