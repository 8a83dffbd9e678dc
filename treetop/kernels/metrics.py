"""Compare ranked ids with sorted sets of true ids, and sum rows many times (resampling)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treetop.core.dataset import Ints
from treetop.kernels.runtime.compile import kernel

Ids = NDArray[np.int32]
Doubles = NDArray[np.float64]

PER_CUT = ("hits", "recall", "ndcg", "psp", "psp_best", "psndcg", "psndcg_best", "predicted")  # columns of `row_sums`


@kernel
def first_allowed(indptr: Ints, ids: Ids, rows: Ints, excluded_indptr: Ints, excluded: Ids, top: Ids) -> None:
    """Fill `top` (n, depth) with the first ids of each of `rows`, without excluded ones and repeats; -1: none left."""
    for i in range(len(rows)):
        row = rows[i]
        n = 0
        for p in range(indptr[row], indptr[row + 1]):
            if n == top.shape[1]:
                break
            skip = False
            for q in range(excluded_indptr[row], excluded_indptr[row + 1]):
                skip |= excluded[q] == ids[p]
            for q in range(n):
                skip |= top[i, q] == ids[p]
            if not skip:
                top[i, n] = ids[p]
                n += 1
        top[i, n:] = -1


@kernel
def find_hits(top: Ids, indptr: Ints, true: Ids, hits: NDArray[np.bool_]) -> None:
    """Mark which of `top` (n, depth) are in the row's sorted set `true[indptr[i]:indptr[i + 1]]`."""
    for i in range(top.shape[0]):
        for j in range(top.shape[1]):
            low, high = indptr[i], indptr[i + 1]
            while low < high:
                middle = (low + high) // 2
                if true[middle] < top[i, j]:
                    low = middle + 1
                else:
                    high = middle
            hits[i, j] = top[i, j] >= 0 and low < indptr[i + 1] and true[low] == top[i, j]


@kernel
def row_sums(
    top: Ids, hits: NDArray[np.bool_], indptr: Ints, true: Ids, weights: Doubles, cuts: Ints, sums: Doubles
) -> None:
    """Fill `sums` (n, 8 * len(cuts) + 1): for each cut the columns of `PER_CUT`, at the end the size of the set."""
    n, depth = top.shape
    discount = np.empty(depth)
    ideal = np.empty(depth + 1)  # DCG of j hits in the first j places
    ideal[0] = 0.0
    for j in range(depth):
        discount[j] = 1.0 / np.log2(j + 2.0)
        ideal[j + 1] = ideal[j] + discount[j]
    best = np.empty(depth)  # largest weights of the true set, descending
    for i in range(n):
        size = indptr[i + 1] - indptr[i]
        held = 0
        for p in range(indptr[i], indptr[i + 1]):
            weight = weights[true[p]]
            if held == depth and weight <= best[depth - 1]:
                continue
            place = min(held, depth - 1)
            while place > 0 and best[place - 1] < weight:
                best[place] = best[place - 1]
                place -= 1
            best[place] = weight
            held = min(held + 1, depth)
        hit = dcg = weighted = weighted_dcg = best_sum = best_dcg = predicted = 0.0
        cut = 0
        for j in range(depth):
            if cut == len(cuts):
                break
            predicted += top[i, j] >= 0
            if hits[i, j]:
                hit += 1.0
                dcg += discount[j]
                weighted += weights[top[i, j]]
                weighted_dcg += weights[top[i, j]] * discount[j]
            if j < held:
                best_sum += best[j]
                best_dcg += best[j] * discount[j]
            if j + 1 == cuts[cut]:
                norm = ideal[min(size, j + 1)] if size > 0 else 1.0
                c = 8 * cut
                sums[i, c] = hit
                sums[i, c + 1] = hit / max(size, 1)
                sums[i, c + 2] = dcg / norm
                sums[i, c + 3] = weighted
                sums[i, c + 4] = best_sum
                sums[i, c + 5] = weighted_dcg / norm
                sums[i, c + 6] = best_dcg / norm
                sums[i, c + 7] = predicted
                cut += 1
        sums[i, 8 * len(cuts)] = size


@kernel
def drawn_sums(table: Doubles, draws: NDArray[np.uint16], starts: Ints, sums: Doubles) -> None:
    """`sums[r] = sum of table[draws[starts[r]:starts[r + 1]]]`: one resample of rows per r."""
    for r in range(len(starts) - 1):
        sums[r] = 0.0
        for p in range(starts[r], starts[r + 1]):
            row = draws[p]
            for m in range(table.shape[1]):
                sums[r, m] += table[row, m]


@kernel
def chosen_sums(table: Doubles, chosen: NDArray[np.uint8], sums: Doubles) -> None:
    """`sums[r] = sum of table[i] where bit i of chosen[r]` (packed, low bit first) is set."""
    for r in range(chosen.shape[0]):
        sums[r] = 0.0
        for i in range(table.shape[0]):
            if chosen[r, i >> 3] >> (i & 7) & 1:
                for m in range(table.shape[1]):
                    sums[r, m] += table[i, m]


def grouped(pairs: NDArray[Any], n: int) -> tuple[Ints, Ids]:
    """(row, id) pairs as (indptr over n rows, ids)."""
    indptr = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(pairs[:, 0], minlength=n), out=indptr[1:])
    return indptr, pairs[np.argsort(pairs[:, 0], kind="stable"), 1].astype(np.int32)
