"""Nearest vectors found by walking a graph of them, best first; and how the graph is made.

Vectors are inserted in a given order, each linked both ways to its nearest among those before it: the first ones have
long links, so the walk from there reaches everything (as in NGT's ANNG). It goes on while the nearest vector not yet
followed is at most 1 + epsilon times as far as the k-th best found. Twin: `slow.nearest`, which compares all.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treetop.core.executor.blas import one_thread
from treetop.kernels.annex.embedding import dot
from treetop.kernels.runtime.compile import kernel, tight
from treetop.kernels.runtime.threads import blocks, run
from treetop.kernels.sparse import F32, Rows

BLOCK = 64  # texts of a piece of work
LINKED = 512  # vectors whose links are found together
STARTS = 4  # first vectors, where every walk begins


class Learner(NamedTuple):
    """Clusters by their weights, and for each its map, its texts in the order of insertion, and the graph of them."""

    W: F32  # (features, clusters)
    penalty: F32  # (clusters,)
    row_ptr: Any  # (clusters + 1,) int64: rows of V
    row_feature: Any  # int32, ascending in each cluster
    V: F32
    doc_ptr: Any  # (clusters + 1,) int64
    docs: Any  # int32
    vectors: F32  # (documents, width) of length 1
    link_ptr: Any  # (documents + 1,) int64
    links: Any  # int32, numbered inside the cluster


class Search(NamedTuple):
    """How many texts are found, and how far a walk goes on."""

    k: int = 10
    epsilon: float = 0.1


def linked(vectors: F32, degree: int) -> tuple[Any, Any]:
    """(pointers, links) of the graph of some vectors, inserted in their order."""
    n = len(vectors)
    sources, found = [], []
    with one_thread():
        for start, stop in blocks(n, LINKED):
            near = vectors[start:stop] @ vectors[:stop].T
            near[np.arange(stop)[None, :] >= np.arange(start, stop)[:, None]] = -np.inf
            kept = min(degree, stop - 1)
            if kept < 1:
                continue
            best = np.argpartition(-near, kept - 1, axis=1)[:, :kept] if kept < stop else np.argsort(-near, axis=1)
            there = np.take_along_axis(near, best, 1) > -np.inf
            sources.append(np.broadcast_to(np.arange(start, stop)[:, None], best.shape)[there])
            found.append(best[there])
    a, b = (np.concatenate([np.zeros(0, np.int64), *side]).astype(np.int64) for side in (sources, found))
    pairs = np.unique(np.concatenate([a * n + b, b * n + a])) if n else np.zeros(0, np.int64)
    ptr = np.searchsorted(pairs, np.arange(n + 1, dtype=np.int64) * n)
    return ptr.astype(np.int64), (pairs % max(n, 1)).astype(np.int32)


@tight
def _sift_down(far: F32, ids: Any, size: int, sign: Any) -> None:
    """Restore a heap whose root was replaced; sign 1: the farthest on top, -1: the nearest."""
    at = 0
    while True:
        down = 2 * at + 1
        if down >= size:
            return
        if down + 1 < size and sign * far[down + 1] > sign * far[down]:
            down += 1
        if sign * far[down] <= sign * far[at]:
            return
        far[at], far[down] = far[down], far[at]
        ids[at], ids[down] = ids[down], ids[at]
        at = down


@tight
def _sift_up(far: F32, ids: Any, at: int, sign: Any) -> None:
    while at > 0:
        up = (at - 1) >> 1
        if sign * far[up] >= sign * far[at]:
            return
        far[at], far[up] = far[up], far[at]
        ids[at], ids[up] = ids[up], ids[at]
        at = up


@kernel
def _walk(query: F32, learner: Learner, first: int, n: int, how: Search, seen: Any, stamp: int, room: Any) -> int:
    """Fill `room` with the nearest texts of a cluster; returns how many, the farthest first (a heap)."""
    best_far, best, front_far, front = room
    size, waiting = 0, 0
    reach = np.float32(1.0 + how.epsilon)
    for start in range(min(STARTS, n)):
        seen[start] = stamp
        far = np.float32(1) - dot(query, learner.vectors[first + start])
        front_far[waiting], front[waiting] = far, start
        _sift_up(front_far, front, waiting, np.float32(-1))
        waiting += 1
        size = _offer(best_far, best, size, how.k, far, start)
    while waiting > 0:
        far, node = front_far[0], front[0]
        if size == how.k and far > reach * best_far[0]:
            break
        waiting -= 1
        front_far[0], front[0] = front_far[waiting], front[waiting]
        _sift_down(front_far, front, waiting, np.float32(-1))
        for p in range(learner.link_ptr[first + node], learner.link_ptr[first + node + 1]):
            other = learner.links[p]
            if seen[other] == stamp:
                continue
            seen[other] = stamp
            far = np.float32(1) - dot(query, learner.vectors[first + other])
            if size < how.k or far <= reach * best_far[0]:
                front_far[waiting], front[waiting] = far, other
                _sift_up(front_far, front, waiting, np.float32(-1))
                waiting += 1
                size = _offer(best_far, best, size, how.k, far, other)
    return size


@tight
def _offer(best_far: F32, best: Any, size: int, k: int, far: Any, node: Any) -> int:
    """Put a text among the best k; returns how many there are."""
    if size < k:
        best_far[size], best[size] = far, node
        _sift_up(best_far, best, size, np.float32(1))
        return size + 1
    if far < best_far[0]:
        best_far[0], best[0] = far, node
        _sift_down(best_far, best, size, np.float32(1))
    return size


@tight
def cluster_of(learner: Learner, columns: Any, values: F32, here: F32) -> Any:
    """The cluster of a text; of equals the first."""
    here[:] = np.float32(0)
    for j in range(len(columns)):
        for c in range(len(here)):
            here[c] += values[j] * learner.W[columns[j], c]
    for c in range(len(here)):
        here[c] -= learner.penalty[c]
    best = 0
    for c in range(len(here)):
        best = c if here[c] > here[best] else best
    return best


@tight
def project_into(learner: Learner, cluster: Any, columns: Any, values: F32, out: F32) -> None:
    """Write a text's projection by the map of a cluster to `out`, without features that no text of it has."""
    out[:] = np.float32(0)
    low, last = learner.row_ptr[cluster], learner.row_ptr[cluster + 1]
    for j in range(len(columns)):
        high = last
        while low < high:
            middle = (low + high) >> 1
            if learner.row_feature[middle] < columns[j]:
                low = middle + 1
            else:
                high = middle
        if low < last and learner.row_feature[low] == columns[j]:
            for k in range(len(out)):
                out[k] += values[j] * learner.V[low, k]


@kernel
def _block(X: Rows, start: int, stop: int, learner: Learner, how: Search, exact: bool) -> Any:
    """(documents, cosines) of each text, best first; -1 behind the last."""
    widest = 0
    for c in range(len(learner.doc_ptr) - 1):
        widest = max(widest, learner.doc_ptr[c + 1] - learner.doc_ptr[c])
    found, cosines = np.full((stop - start, how.k), -1, np.int32), np.zeros((stop - start, how.k), np.float32)
    here, out = np.empty(learner.W.shape[1], np.float32), np.empty(learner.V.shape[1], np.float32)
    seen = np.zeros(widest, np.int32)
    room = (
        np.empty(how.k, np.float32), np.empty(how.k, np.int32),
        np.empty(widest + STARTS, np.float32), np.empty(widest + STARTS, np.int32),
    )  # fmt: skip
    for row in range(start, stop):
        columns = X.indices[X.indptr[row] : X.indptr[row + 1]]
        values = X.values[X.indptr[row] : X.indptr[row + 1]]
        cluster = cluster_of(learner, columns, values, here)
        project_into(learner, cluster, columns, values, out)
        length = np.sqrt(dot(out, out))
        first, n = learner.doc_ptr[cluster], learner.doc_ptr[cluster + 1] - learner.doc_ptr[cluster]
        if not length > 0 or n == 0:
            continue
        for k in range(len(out)):
            out[k] /= length
        if exact:
            size = 0
            for i in range(n):
                far = np.float32(1) - dot(out, learner.vectors[first + i])
                size = _offer(room[0], room[1], size, how.k, far, np.int32(i))
        else:
            size = _walk(out, learner, first, n, how, seen, row - start + 1, room)
        _sorted_into(found[row - start], cosines[row - start], room, size, learner.docs, first)
    return found, cosines


@tight
def _sorted_into(found: Any, cosines: F32, room: Any, size: int, docs: Any, first: Any) -> None:
    """The texts of a heap, nearest first, of equals the lower number; those of a cosine of 0 or less do not count."""
    m = 0
    for i in range(size):
        cosine, doc = np.float32(1) - room[0][i], docs[first + room[1][i]]
        if not cosine > 0:
            continue
        at = m
        while at > 0 and (cosines[at - 1] < cosine or (cosines[at - 1] == cosine and found[at - 1] > doc)):
            found[at], cosines[at] = found[at - 1], cosines[at - 1]
            at -= 1
        found[at], cosines[at] = doc, cosine
        m += 1


def nearest(X: Rows, learner: Learner, how: Search, *, exact: bool = False) -> tuple[Any, F32]:
    """(documents, cosines) of the `k` nearest training texts of each row, in its cluster; -1 where there are fewer."""
    parts = run(lambda a, b: _block(X, a, b, learner, how, exact), blocks(len(X.indptr) - 1, BLOCK))
    found = np.concatenate([np.zeros((0, how.k), np.int32), *(part[0] for part in parts)])
    return found, np.concatenate([np.zeros((0, how.k), np.float32), *(part[1] for part in parts)])
