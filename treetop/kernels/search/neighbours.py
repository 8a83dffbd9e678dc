"""Exact nearest rows of a sparse matrix by inner product, one query at a time over an inverted index."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treetop.kernels.runtime.compile import kernel
from treetop.kernels.runtime.threads import blocks, run

A = NDArray[Any]
Triple = tuple[A, A, A]  # indptr, indices, data
BLOCK = 256


@kernel
def _nearest_block(
    start: int, stop: int, q_ptr: A, q_col: A, q_val: A, ptr: A, row: A, val: A, n: int, k: int
) -> tuple[A, A]:
    """Heaps of the k best rows of each query; ties go to the lower row."""
    count = stop - start
    best = np.full((count, k), -1, np.int32)
    sims = np.zeros((count, k), np.float32)
    score = np.zeros(n, np.float32)
    seen = np.zeros(n, np.uint8)
    touched = np.empty(n, np.int32)
    heap_s = np.empty(k, np.float32)
    heap_r = np.empty(k, np.int32)
    for q in range(start, stop):
        n_touched = 0
        for j in range(q_ptr[q], q_ptr[q + 1]):
            column, x = q_col[j], q_val[j]
            for i in range(ptr[column], ptr[column + 1]):
                r = row[i]
                if seen[r] == 0:
                    seen[r] = 1
                    touched[n_touched] = r
                    n_touched += 1
                score[r] += x * val[i]
        size = 0
        for t in range(n_touched):
            r = touched[t]
            s = score[r]
            score[r] = np.float32(0.0)
            seen[r] = 0
            if not s > 0:
                continue
            if size < k:
                i = size  # sift up; the root is the worst of the kept
                size += 1
                while i > 0:
                    up = (i - 1) >> 1
                    if heap_s[up] > s or (heap_s[up] == s and heap_r[up] < r):
                        heap_s[i], heap_r[i] = heap_s[up], heap_r[up]
                        i = up
                    else:
                        break
                heap_s[i], heap_r[i] = s, r
            elif s > heap_s[0] or (s == heap_s[0] and r < heap_r[0]):
                i = 0
                while True:
                    down = 2 * i + 1
                    if down >= size:
                        break
                    other = down + 1
                    if other < size and (
                        heap_s[other] < heap_s[down] or (heap_s[other] == heap_s[down] and heap_r[other] > heap_r[down])
                    ):
                        down = other
                    if s > heap_s[down] or (s == heap_s[down] and r < heap_r[down]):
                        heap_s[i], heap_r[i] = heap_s[down], heap_r[down]
                        i = down
                    else:
                        break
                heap_s[i], heap_r[i] = s, r
        # by similarity, then row: insertion into place is enough for k in the hundreds
        for i in range(size):
            s, r = heap_s[i], heap_r[i]
            j = i
            while j > 0 and (
                sims[q - start, j - 1] < s or (sims[q - start, j - 1] == s and best[q - start, j - 1] > r)
            ):
                sims[q - start, j] = sims[q - start, j - 1]
                best[q - start, j] = best[q - start, j - 1]
                j -= 1
            sims[q - start, j], best[q - start, j] = s, r
    return best, sims


@kernel
def _vote_block(
    best: A, sims: A, power: float, y_ptr: A, y_col: A, y_val: A, n_labels: int, keep: int
) -> tuple[A, A, A]:
    """Labels of the neighbours, each voting with similarity ** power; normalised by the sum of all votes."""
    count, k = best.shape
    ptr = np.zeros(count + 1, np.int64)
    ids = np.empty(count * keep, np.int32)
    out = np.empty(count * keep, np.float32)
    votes = np.zeros(n_labels, np.float64)
    touched = np.empty(n_labels, np.int32)
    at = 0
    for q in range(count):
        total, n_touched = 0.0, 0
        for j in range(k):
            r = best[q, j]
            if r < 0:
                break
            w = float(sims[q, j]) ** power
            total += w
            for i in range(y_ptr[r], y_ptr[r + 1]):
                label, gain = y_col[i], w * y_val[i]
                if not gain > 0.0:  # a vote of nothing (or NaN) would list its label again and again
                    continue
                if votes[label] == 0.0:
                    touched[n_touched] = label
                    n_touched += 1
                votes[label] += gain
        labels = np.sort(touched[:n_touched])
        scores = np.empty(n_touched, np.float32)
        for i in range(n_touched):
            scores[i] = np.float32(votes[labels[i]] / total)
            votes[labels[i]] = 0.0
        order = np.argsort(-scores, kind="mergesort")  # stable: ties stay in label order
        for i in range(min(keep, n_touched)):
            ids[at], out[at] = labels[order[i]], scores[order[i]]
            at += 1
        ptr[q + 1] = at
    return ptr, ids[:at].copy(), out[:at].copy()


def nearest(queries: Triple, index: Triple, n: int, k: int) -> tuple[A, A]:
    """(ids, similarities) of the `k` best of `n` rows for each query row, -1 where fewer share a feature.

    `queries` is (indptr, indices, data) by row, `index` the searched matrix by column.
    """
    n_queries = len(queries[0]) - 1
    parts = run(lambda a, b: _nearest_block(a, b, *queries, *index, n, k), blocks(n_queries, BLOCK))
    if not parts:
        return np.zeros((0, k), np.int32), np.zeros((0, k), np.float32)
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def vote(best: A, sims: A, power: float, targets: Triple, n_labels: int, keep: int) -> tuple[A, A, A]:
    """(indptr, ids, scores): the `keep` best labels by the neighbours' votes; `targets` is Y by row."""
    keep = min(keep, n_labels)
    parts = run(
        lambda a, b: _vote_block(best[a:b], sims[a:b], power, *targets, n_labels, keep), blocks(len(best), BLOCK)
    )
    lengths = np.concatenate([np.diff(part[0]) for part in parts]) if parts else np.zeros(0, np.int64)
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    ids = np.concatenate([part[1] for part in parts]) if parts else np.zeros(0, np.int32)
    return indptr, ids, np.concatenate([part[2] for part in parts]) if parts else np.zeros(0, np.float32)
