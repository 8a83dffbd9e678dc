"""Clusters of sparse rows: balanced halves again and again, or k groups of any size.

Every node of a level is its own small problem: its rows are copied once with features renumbered from 0, so that all
iterations run on short dense centres whatever the width of the matrix. Nodes draw from seeds of their own and run on
the thread pool, so the result does not depend on threads. Members of a node stay in ascending order, which is the
tie break: equal scores go by row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from treetop.kernels.threads import run

A = NDArray[Any]
SAME_SET, SMALL_GAIN = 0, 1  # stopping rules


@njit(cache=True, nogil=True)
def _local(rows: A, indptr: A, indices: A, data: A, n_features: int) -> tuple[A, A, A, int]:
    """The rows as a matrix of their own, features renumbered in order of appearance."""
    place = np.full(n_features, -1, np.int32)
    total = 0
    for r in rows:
        total += indptr[r + 1] - indptr[r]
    ptr = np.zeros(len(rows) + 1, np.int64)
    col = np.empty(total, np.uint32)
    val = np.empty(total, np.float32)
    at, width = 0, 0
    for i, r in enumerate(rows):
        for j in range(indptr[r], indptr[r + 1]):
            f = indices[j]
            if place[f] < 0:
                place[f] = width
                width += 1
            col[at] = place[f]
            val[at] = data[j]
            at += 1
        ptr[i + 1] = at
    return ptr, col, val, width


@njit(cache=True, nogil=True)
def _add_row(centre: A, side: int, ptr: A, col: A, val: A, row: int) -> None:
    for j in range(ptr[row], ptr[row + 1]):
        centre[col[j], side] += val[j]


@njit(cache=True, nogil=True)
def _centres(sums: A, n_left: int, n_right: int, spherical: bool, centre: A) -> None:
    """Unit length, or the mean, of both sums; a zero sum stays zero."""
    left, right = 0.0, 0.0
    if spherical:
        for f in range(len(sums)):
            left += float(sums[f, 0]) ** 2
            right += float(sums[f, 1]) ** 2
        left, right = np.sqrt(left), np.sqrt(right)
    else:
        left, right = float(n_left), float(n_right)
    by_left = np.float32(1.0 / left if left > 0 else 0.0)
    by_right = np.float32(1.0 / right if right > 0 else 0.0)
    for f in range(len(sums)):
        centre[f, 0] = sums[f, 0] * by_left
        centre[f, 1] = sums[f, 1] * by_right


@njit(cache=True, nogil=True)
def _upper_half(score: A, half: int, right: A) -> None:
    """False for the `half` smallest scores (ties by place), True for the others."""
    cut = np.partition(score, half)[half]
    room = half
    for i in range(len(score)):
        room -= score[i] < cut
    for i in range(len(score)):
        right[i] = not (score[i] < cut or (score[i] == cut and room > 0))
        room -= score[i] == cut


@njit(cache=True, nogil=True)
def _split(ptr: A, col: A, val: A, width: int, start: A, rule: int, max_iter: int, eps: float, spherical: bool) -> A:
    """True where a row goes right: the halves of a balanced 2-means, left floor(n / 2)."""
    n, half = len(ptr) - 1, (len(ptr) - 1) // 2
    sums, centre = np.zeros((width, 2), np.float32), np.zeros((width, 2), np.float32)
    _add_row(centre, 0, ptr, col, val, start[0])
    _add_row(centre, 1, ptr, col, val, start[1])
    right, fresh = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    own, score = np.empty((n, 2), np.float32), np.empty(n, np.float32)
    before = -np.inf
    for step in range(max_iter):
        for i in range(n):
            s0, s1 = np.float32(0), np.float32(0)
            for j in range(ptr[i], ptr[i + 1]):
                s0 += val[j] * centre[col[j], 0]
                s1 += val[j] * centre[col[j], 1]
            own[i, 0], own[i, 1] = s0, s1
            score[i] = s1 - s0
        _upper_half(score, half, fresh)
        mean = 0.0
        for i in range(n):
            mean += own[i, 1] if fresh[i] else own[i, 0]
        mean /= n
        done = np.array_equal(fresh, right) if rule == SAME_SET else mean - before < eps
        if step > 0 and done:
            return fresh
        before = mean
        for i in range(n):  # only rows that changed sides move between the sums
            if step == 0:
                _add_row(sums, 1 if fresh[i] else 0, ptr, col, val, i)
            elif fresh[i] != right[i]:
                to = 1 if fresh[i] else 0
                for j in range(ptr[i], ptr[i + 1]):
                    sums[col[j], to] += val[j]
                    sums[col[j], 1 - to] -= val[j]
        right[:] = fresh
        _centres(sums, half, n - half, spherical, centre)
    return right


@njit(cache=True, nogil=True)
def _halve(
    rows: A, indptr: A, indices: A, data: A, n_features: int, start: A, options: tuple[int, int, float, bool]
) -> A:
    ptr, col, val, width = _local(rows, indptr, indices, data, n_features)
    rule, max_iter, eps, spherical = options
    return _split(ptr, col, val, width, start, rule, max_iter, eps, spherical)


def _distinct(n: int, k: int, seed: int) -> A:
    """`k` different rows of `n` (all of them when fewer) to start from."""
    return np.random.default_rng(seed).permutation(n)[:k]


def halve_dense(Z: A, start: A, options: tuple[int, int, float, bool]) -> A:
    """The same split for dense rows, by matrix products."""
    rule, max_iter, eps, spherical = options
    n, half = len(Z), len(Z) // 2
    centre = Z[start].astype(np.float32)
    right, before = np.zeros(n, bool), -np.inf
    for step in range(max_iter):
        own = Z @ centre.T
        order = np.lexsort((np.arange(n), own[:, 1] - own[:, 0]))
        fresh = np.ones(n, bool)
        fresh[order[:half]] = False
        mean = float(np.where(fresh, own[:, 1], own[:, 0]).mean())
        done = np.array_equal(fresh, right) if rule == SAME_SET else mean - before < eps
        right = fresh
        if step > 0 and done:
            break
        before = mean
        centre = np.stack([Z[~right].sum(0), Z[right].sum(0)]).astype(np.float32)
        lengths = np.linalg.norm(centre, axis=1) if spherical else np.array([half, n - half], np.float64)
        centre /= np.where(lengths > 0, lengths, 1.0)[:, None].astype(np.float32)
    return right


def balanced_leaves(
    Z: Any,
    depth: int,
    *,
    seed: int,
    max_leaf: int = 0,
    options: tuple[int, int, float, bool] = (SAME_SET, 20, 1e-4, True),
) -> A:
    """(rows,) number of the leaf of each row after `depth` rounds of halving, leaves in tree order.

    With `max_leaf` a node that is small enough is not split further. `Z` is csr or dense; `options` is
    (stopping rule, most iterations, eps of the gain, spherical).
    """
    dense = isinstance(Z, np.ndarray)
    csr = (
        () if dense else (Z.indptr.astype(np.int64), Z.indices.astype(np.int32), Z.data.astype(np.float32), Z.shape[1])
    )
    nodes: list[A] = [np.arange(Z.shape[0], dtype=np.int64)]
    master = np.random.default_rng(seed)
    for _ in range(depth):
        seeds = master.integers(0, 2**31 - 1, len(nodes))

        def split(start: int, stop: int, nodes: list[A] = nodes, seeds: A = seeds) -> list[A]:
            made: list[A] = []
            for node, node_seed in zip(nodes[start:stop], seeds[start:stop].tolist(), strict=True):
                if len(node) < 2 or len(node) <= max_leaf:
                    made.append(node)
                    continue
                first = _distinct(len(node), 2, node_seed)
                right = halve_dense(Z[node], first, options) if dense else _halve(node, *csr, first, options)  # type: ignore[call-arg]
                made += [node[~right], node[right]]
            return made

        step = max(1, len(nodes) // 64)
        ranges = [(a, min(a + step, len(nodes))) for a in range(0, len(nodes), step)]
        nodes = [node for part in run(split, ranges) for node in part]
    leaf = np.empty(Z.shape[0], np.int32)
    for number, node in enumerate(nodes):
        leaf[node] = number
    return leaf


@njit(cache=True, nogil=True)
def _group(rows: A, indptr: A, indices: A, data: A, n_features: int, start: A, max_iter: int, eps: float) -> A:
    """(len(rows),) group of each row by spherical k-means; the first centres are k distinct rows."""
    ptr, col, val, width = _local(rows, indptr, indices, data, n_features)
    n, k = len(rows), len(start)
    centre = np.zeros((width, k), np.float32)
    for c in range(k):
        _add_row(centre, c, ptr, col, val, start[c])
    group = np.zeros(n, np.int32)
    score = np.empty(k, np.float32)
    before = -np.inf
    for step in range(max_iter):
        mean = 0.0
        for i in range(n):
            score[:] = 0
            for j in range(ptr[i], ptr[i + 1]):
                x, f = val[j], col[j]
                for c in range(k):
                    score[c] += x * centre[f, c]
            best = 0
            for c in range(1, k):
                if score[c] > score[best]:
                    best = c
            group[i] = best
            mean += score[best]
        mean /= n
        if step > 0 and mean - before < eps:
            break
        before = mean
        centre[:] = 0
        for i in range(n):
            _add_row(centre, group[i], ptr, col, val, i)
        length = np.zeros(k, np.float64)
        for f in range(width):
            for c in range(k):
                length[c] += float(centre[f, c]) ** 2
        for c in range(k):
            length[c] = 1.0 / np.sqrt(length[c]) if length[c] > 0 else 0.0
        for f in range(width):
            for c in range(k):
                centre[f, c] *= np.float32(length[c])
    return group


def grouped(Z: Any, nodes: list[A], k: int, *, seed: int, max_iter: int = 20, eps: float = 1e-4) -> list[list[A]]:
    """Each node's rows in at most `k` groups by spherical k-means, empty groups dropped; `Z` is csr."""
    csr = (Z.indptr.astype(np.int64), Z.indices.astype(np.int32), Z.data.astype(np.float32), Z.shape[1])
    seeds = np.random.default_rng(seed).integers(0, 2**31 - 1, len(nodes)).tolist()

    def split(start: int, stop: int) -> list[A]:
        node = nodes[start]
        group: A = _group(node, *csr, _distinct(len(node), k, seeds[start]), max_iter, eps)
        return [node[group == c] for c in range(k) if (group == c).any()]

    return run(split, [(i, i + 1) for i in range(len(nodes))])
