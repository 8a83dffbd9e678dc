"""Top k of a stream of (score, id) for each document. Ties go to the lower id, whatever the order."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treetop.kernels.runtime.compile import kernel, tight
from treetop.kernels.sparse import F32


class Best(NamedTuple):
    """Per document a heap of the best so far, the worst on top: (score, id) as one integer, and the other score."""

    size: NDArray[np.int32]
    keys: Any  # (n_documents, keep) uint64, larger is better
    other: Any  # (n_documents, keep)
    spare: F32  # (keep,) scratch


@tight
def key_of(score: Any, id_: Any) -> Any:
    """A number that grows with the score and, for equal scores, falls with the id."""
    bits = np.uint64(np.float32(score + np.float32(0)).view(np.uint32))  # adding 0 makes -0 a 0
    bits ^= np.uint64(0xFFFFFFFF) if bits & np.uint64(0x80000000) else np.uint64(0x80000000)
    return (bits << np.uint64(32)) | (np.uint64(0xFFFFFFFF) - np.uint64(id_))


@tight
def id_in(key: Any) -> Any:
    """The id of a key."""
    return np.int32(np.uint64(0xFFFFFFFF) - (key & np.uint64(0xFFFFFFFF)))


@tight
def score_in(key: Any) -> Any:
    """The score of a key."""
    bits = key >> np.uint64(32)
    bits ^= np.uint64(0x80000000) if bits & np.uint64(0x80000000) else np.uint64(0xFFFFFFFF)
    return np.uint32(bits).view(np.float32)


@tight
def push(size: Any, keys: Any, others: Any, document: Any, key: Any, other: Any) -> None:
    """Offer a candidate to a document's best; the worst of them comes first.

    The others are in no order: to look through all of them for the new worst runs on vectors and beats a heap, whose
    branches nobody can foresee, for the lists of some dozens that are asked for.
    """
    n, keep, first = np.uint32(size[document]), np.uint32(keys.shape[1]), np.uint32(0)
    if n < keep:
        size[document] = n + np.uint32(1)
        keys[document, n], others[document, n] = key, other
        if key < keys[document, first]:
            _swap(keys, others, document, n)
    elif keep > 0 and key > keys[document, first]:
        keys[document, first], others[document, first] = key, other
        worst = key
        for k in range(np.uint32(1), keep):
            worst = min(worst, keys[document, k])
        at = np.uint32(0)
        for k in range(np.uint32(1), keep):
            at = np.uint32(k) if keys[document, k] == worst else at
        _swap(keys, others, document, at)


@tight
def _swap(keys: Any, others: Any, document: Any, at: Any) -> None:
    first = np.uint32(0)
    keys[document, first], keys[document, at] = keys[document, at], keys[document, first]
    others[document, first], others[document, at] = others[document, at], others[document, first]


@tight
def kth_largest(values: F32, n: Any, heap: F32) -> Any:
    """The k-th largest of values[:n], by a heap of k."""
    k, size = np.uint32(len(heap)), np.uint32(0)
    for i in range(n):
        value = values[i]
        if size < k:
            at = size
            size += np.uint32(1)
            while at > 0 and heap[(at - np.uint32(1)) >> np.uint32(1)] > value:
                heap[at] = heap[(at - np.uint32(1)) >> np.uint32(1)]
                at = (at - np.uint32(1)) >> np.uint32(1)
            heap[at] = value
        elif value > heap[0]:
            at = np.uint32(0)
            while True:
                down = np.uint32(2) * at + np.uint32(1)
                if down >= k:
                    break
                if down + np.uint32(1) < k and heap[down + np.uint32(1)] < heap[down]:
                    down += np.uint32(1)
                if heap[down] >= value:
                    break
                heap[at] = heap[down]
                at = down
            heap[at] = value
    return heap[0]


@kernel
def kth_of_rows(values: F32, k: int) -> Any:
    """(rows,) the k-th largest of each row, which has at least so many."""
    kth, heap = np.empty(len(values), np.float32), np.empty(k, np.float32)
    for row in range(len(values)):
        kth[row] = kth_largest(values[row], values.shape[1], heap)
    return kth


@kernel
def rows_above(margins: F32, bias: F32, floor: F32, room: int) -> Any:
    """(rows, columns, sums) of the sums margins + bias that reach their row's floor; in one pass, nothing is changed.

    Where there are more than `room`, one more than `room` of each comes back, and the rest is not looked for.
    """
    rows, columns = np.empty(room + 1, np.int64), np.empty(room + 1, np.int64)
    sums, n = np.empty(room + 1, np.float32), 0
    for row in range(len(margins)):
        least = floor[row]
        for column in range(margins.shape[1]):
            total = margins[row, column] + bias[column]
            if total >= least:
                rows[n], columns[n], sums[n] = row, column, total
                n += 1
                if n > room:
                    return rows, columns, sums
    return rows[:n], columns[:n], sums[:n]


@kernel
def heaps(n_documents: int, keep: int) -> Best:
    """Empty heaps."""
    shape = (n_documents, keep)
    return Best(
        np.zeros(n_documents, np.int32),
        np.empty(shape, np.uint64),
        np.empty(shape, np.float32),
        np.empty(keep, np.float32),
    )


@kernel
def _fall(keys: Any, places: Any, n: int) -> None:
    """Places of keys[:n] from the largest to the smallest; few are sorted by insertion, which also sorts `keys`."""
    if n > 64:
        places[:n] = np.argsort(keys[:n])[::-1]
        return
    for k in range(n):
        at, key = k, keys[k]
        while at > 0 and keys[at - 1] < key:
            keys[at], places[at] = keys[at - 1], places[at - 1]
            at -= 1
        keys[at], places[at] = key, k


@kernel
def in_order(best: Best, by_own: bool) -> Any:
    """(indptr, ids, score, own) of every heap, by combined score, then id."""
    n = len(best.size)
    indptr = np.zeros(n + 1, np.int64)
    for document in range(n):
        indptr[document + 1] = indptr[document] + best.size[document]
    ids = np.empty(indptr[n], np.int32)
    score, own = np.empty(indptr[n], np.float32), np.empty(indptr[n], np.float32)
    keys, places = np.empty(best.keys.shape[1], np.uint64), np.empty(best.keys.shape[1], np.int64)
    for document in range(n):
        first, size = indptr[document], best.size[document]
        for k in range(size):
            key = best.keys[document, k]
            keys[k] = key_of(best.other[document, k], id_in(key)) if by_own else key
        _fall(keys, places, size)
        for k in range(size):
            key, other = best.keys[document, places[k]], best.other[document, places[k]]
            ids[first + k] = id_in(key)
            score[first + k], own[first + k] = (other, score_in(key)) if by_own else (score_in(key), other)
    return indptr, ids, score, own


@kernel
def best_of(indptr: Any, ids: Any, score: F32, own: F32, keep: int) -> Any:
    """(indptr, ids, score, own) of the best `keep` entries of every row, by score, then id."""
    best = heaps(len(indptr) - 1, keep)
    for row in range(len(indptr) - 1):
        for p in range(indptr[row], indptr[row + 1]):
            push(best.size, best.keys, best.other, row, key_of(score[p], ids[p]), own[p])
    return in_order(best, False)


def largest(values: NDArray[Any], ids: NDArray[np.integer], keep: int) -> NDArray[np.int64]:
    """Where the `keep` largest values stand, best first, ties by id; what is not a number comes last."""
    values = np.where(np.isnan(values), -np.inf, values)
    edge = np.partition(values, -keep)[-keep] if keep < len(values) else -np.inf
    above = np.flatnonzero(values >= edge)
    return above[np.lexsort((ids[above], -values[above]))[:keep]]
