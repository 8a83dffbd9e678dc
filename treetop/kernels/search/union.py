"""Several rankings of the same documents side by side: every label that one of them returned, and the best of these.

Twins: `reference.union`, `reference.best_of_rows`. Documents are looked at one after the other, so that the result
depends neither on the number of threads nor on the other documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treetop.kernels.runtime import threads
from treetop.kernels.runtime.compile import kernel

BLOCK = 256  # documents looked at together

Ints = NDArray[np.int64]
Ids = NDArray[np.int32]
Floats = NDArray[np.float32]
Lists = tuple[Ints, Ids, Floats]  # of a source: where documents begin, labels, and scores from the best to the lowest


def union(sources: Sequence[Lists]) -> tuple[Ints, Ids, Floats, NDArray[np.bool_], Floats]:
    """(where documents begin, labels ascending, scores of each source, whether it returned the label, its best scores).

    A label that a source did not return has the lowest score the source returned for the document, or 0.
    """
    n, width = len(sources[0][0]) - 1, len(sources)
    shifts = np.cumsum([0, *(len(ids) for _, ids, _ in sources[:-1])])
    ends = np.stack([indptr + shift for (indptr, _, _), shift in zip(sources, shifts, strict=True)]).astype(np.int64)
    ids = np.concatenate([ids for _, ids, _ in sources]).astype(np.int32, copy=False)
    score = np.concatenate([score for _, _, score in sources]).astype(np.float32, copy=False)
    sizes, best = np.zeros(n, np.int64), np.zeros((n, width), np.float32)

    def block(start: int, stop: int) -> tuple[Ids, Floats, NDArray[np.bool_]]:
        room = int((ends[:, stop] - ends[:, start]).sum())
        made = np.empty(room, np.int32), np.empty((room, width), np.float32), np.empty((room, width), np.bool_)
        used = _union(ends, ids, score, start, stop, *made, best, sizes)
        return made[0][:used], made[1][:used], made[2][:used]

    parts = threads.run(block, threads.blocks(n, BLOCK))
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    if not parts:
        return indptr, np.empty(0, np.int32), np.empty((0, width), np.float32), np.empty((0, width), np.bool_), best
    labels, scores, found = (np.concatenate(side) for side in zip(*parts, strict=True))
    return indptr, labels, scores, found, best


@kernel
def _union(
    ends: Any, ids: Any, score: Any, start: int, stop: int, labels: Any, scores: Any, found: Any, best: Any, sizes: Any
) -> Any:
    at, width = 0, ends.shape[0]
    for row in range(start, stop):
        first = at
        for s in range(width):
            for j in range(ends[s, row], ends[s, row + 1]):
                labels[at] = ids[j]
                at += 1
        part = np.sort(labels[first:at])
        at = first
        for i in range(part.shape[0]):
            if i == 0 or part[i] != part[i - 1]:
                labels[at] = part[i]
                at += 1
        sizes[row] = at - first
        for s in range(width):
            a, b = ends[s, row], ends[s, row + 1]
            lowest = score[b - 1] if b > a else np.float32(0)
            best[row, s] = score[a] if b > a else np.float32(0)
            scores[first:at, s] = lowest
            found[first:at, s] = False
            for j in range(a, b):
                place = first + np.searchsorted(labels[first:at], ids[j])
                scores[place, s], found[place, s] = score[j], True
    return at


def best_of_rows(indptr: Ints, ids: Ids, score: Floats, own: Floats, k: int) -> tuple[Ints, Ids, Floats, Floats]:
    """The best `k` entries of each document by score, then by label; labels of a document are ascending."""
    kept = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.minimum(np.diff(indptr), k))])
    n = int(kept[-1])
    made = np.empty(n, np.int32), np.empty(n, np.float32), np.empty(n, np.float32)

    def block(start: int, stop: int) -> None:
        _best_of_rows(indptr, ids, score, own, kept, start, stop, *made)

    threads.run(block, threads.blocks(len(indptr) - 1, BLOCK))
    return kept, *made


@kernel
def _best_of_rows(
    indptr: Any, ids: Any, score: Any, own: Any, kept: Any, start: int, stop: int, ids_: Any, score_: Any, own_: Any
) -> None:
    for row in range(start, stop):
        a, to = indptr[row], kept[row]
        order = np.argsort(-score[a : indptr[row + 1]], kind="mergesort")  # stable: of equals the lower label first
        for i in range(kept[row + 1] - to):
            j = a + order[i]
            ids_[to + i], score_[to + i], own_[to + i] = ids[j], score[j], own[j]
