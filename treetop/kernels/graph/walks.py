"""Random walks between labels that share texts: which labels a walk from each label visits most."""

from __future__ import annotations

from typing import Any

import numpy as np

from treetop.kernels.runtime.compile import kernel, tight
from treetop.kernels.runtime.threads import blocks, run
from treetop.kernels.sparse import Rows, scramble

BLOCK = 1024  # labels walked from at a time


@tight
def _pick(rows: Rows, row: Any, state: Any) -> Any:
    """An entry of a row by the upper bits of a random number."""
    first, n = rows.indptr[row], rows.indptr[row + np.uint64(1)] - rows.indptr[row]
    return rows.indices[first + (((state >> np.uint64(32)) * n) >> np.uint64(32))]


@kernel
def _walk_block(texts: Rows, labels: Rows, span: Any, walk: Any, seed: Any) -> Any:
    """(ids, visits) of the labels first..end, `keep` each, most visited first; 0 visits: none."""
    (first, end), (hops, restart, keep) = span, walk
    cut = np.uint64(restart * 4294967296.0)
    ids, visits = np.zeros((end - first, keep), np.int32), np.zeros((end - first, keep), np.int32)
    seen = np.empty(hops, np.int32)
    for origin in range(np.uint64(first), np.uint64(end)):
        if texts.indptr[origin] == texts.indptr[origin + np.uint64(1)]:
            continue
        here: Any = origin
        state: Any = scramble(seed ^ scramble(here))
        for hop in range(hops):
            state = scramble(state)
            text = np.uint64(_pick(texts, here, state))
            state = scramble(state)
            here = np.uint64(_pick(labels, text, state))
            seen[hop] = here
            state = scramble(state)
            if (state >> np.uint64(32)) < cut:
                here = origin
        seen.sort()
        _most(seen, ids[origin - np.uint64(first)], visits[origin - np.uint64(first)])
    return ids, visits


@tight
def _most(seen: Any, ids: Any, visits: Any) -> None:
    """The most frequent values of a sorted array, the lower of equals first."""
    at, n, keep = 0, len(seen), len(ids)
    while at < n:
        end = at
        while end < n and seen[end] == seen[at]:
            end += 1
        count, place = end - at, keep
        while place > 0 and visits[place - 1] < count:
            place -= 1
        for k in range(keep - 1, place, -1):
            ids[k], visits[k] = ids[k - 1], visits[k - 1]
        if place < keep:
            ids[place], visits[place] = seen[at], count
        at = end


def visited(texts: Rows, labels: Rows, *, hops: int, restart: float, keep: int, seed: int) -> Any:
    """(ids, visits), both (labels, keep): the labels most visited by a walk from each label.

    A hop goes to a random text of the label (`texts`, labels x texts) and to a random label of that text (`labels`);
    with probability `restart` the next hop begins at the origin again.
    """
    walk = (hops, restart, keep)
    blocks_ = run(
        lambda a, b: _walk_block(texts, labels, (a, b), walk, np.uint64(seed)), blocks(len(texts.indptr) - 1, BLOCK)
    )
    if not blocks_:
        return np.zeros((0, keep), np.int32), np.zeros((0, keep), np.int32)
    return np.concatenate([ids for ids, _ in blocks_]), np.concatenate([visits for _, visits in blocks_])
