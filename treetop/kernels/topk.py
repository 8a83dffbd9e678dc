"""The best few of a stream of (score, id): a heap per document. Ties go to the lower id, whatever the order."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treetop.kernels.compile import kernel, tight
from treetop.kernels.sparse import F32


class Best(NamedTuple):
    """Per document a heap of the best so far, the worst on top: (score, id) as one number, and the other score."""

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
    """Offer a candidate to a document's heap."""
    n, keep = np.uint32(size[document]), np.uint32(keys.shape[1])
    if n < keep:
        at = n
        size[document] = n + np.uint32(1)
        while at > 0:
            up = (at - np.uint32(1)) >> np.uint32(1)
            if keys[document, up] <= key:
                break
            keys[document, at], others[document, at] = keys[document, up], others[document, up]
            at = up
    elif keep == 0 or key <= keys[document, 0]:
        return
    else:
        at = np.uint32(0)
        while True:
            down = np.uint32(2) * at + np.uint32(1)
            if down >= n:
                break
            if down + np.uint32(1) < n and keys[document, down + np.uint32(1)] < keys[document, down]:
                down += np.uint32(1)
            if keys[document, down] >= key:
                break
            keys[document, at], others[document, at] = keys[document, down], others[document, down]
            at = down
    keys[document, at], others[document, at] = key, other


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
def in_order(best: Best, by_own: bool) -> Any:
    """(indptr, ids, score, own) of every heap, by combined score, then id."""
    n = len(best.size)
    indptr = np.zeros(n + 1, np.int64)
    for document in range(n):
        indptr[document + 1] = indptr[document] + best.size[document]
    ids = np.empty(indptr[n], np.int32)
    score, own = np.empty(indptr[n], np.float32), np.empty(indptr[n], np.float32)
    for document in range(n):
        first = indptr[document]
        for k in range(best.size[document]):
            at, key = first + k, best.keys[document, k]
            chosen, other, id_ = score_in(key), best.other[document, k], id_in(key)
            total, alone = (other, chosen) if by_own else (chosen, other)
            while at > first and (score[at - 1] < total or (score[at - 1] == total and ids[at - 1] > id_)):
                ids[at], score[at], own[at] = ids[at - 1], score[at - 1], own[at - 1]
                at -= 1
            ids[at], score[at], own[at] = id_, total, alone
    return indptr, ids, score, own
