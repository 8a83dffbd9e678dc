"""Clusters of rows by recursive balanced halving (`kmeans.py`: k clusters of any size).

Every node is its own small problem: its rows are copied once with features renumbered, frequent ones first, so that
iterations run on a short dense vector whatever the width of the matrix. A feature of one row only moves no other row;
its part in a score is known from that row's side and kept as one number. Nodes draw from seeds of their own and run on
the thread pool, so the result does not depend on threads. Members of a node stay in ascending order, which is the tie
break: equal scores go by row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treetop.core import spill
from treetop.core.executor import executor
from treetop.core.spill import Spill
from treetop.kernels.runtime.compile import kernel, tight
from treetop.kernels.sparse import F32, U32, Local, Rows, gather, gather_spilled, read_only, rows_of, scramble

A = NDArray[Any]
SAME_SET, SMALL_GAIN = 0, 1  # stopping rules


class Options(NamedTuple):
    """How a node is halved: stopping rule, maximum iterations, minimum gain, spherical or not."""

    rule: int = SAME_SET
    max_iter: int = 20
    eps: float = 1e-4
    spherical: bool = True


class _Halves(NamedTuple):
    right: Any  # (n,) bool
    alone: F32  # (n,) squared length of the features no other row has
    total: F32  # (width,) sum of all rows
    on_right: F32  # (width,) sum of the rows on the right
    centres: Any  # (width, 2) left and right; (width, 1) their difference where that is enough
    own: Any  # (n, 2) products with both centres, for the rule of gains


@tight
def _dot(vector: Any, column: Any, local: Local, row: Any) -> Any:
    """Product of a row with one column, by four sums side by side."""
    a, b = np.float32(0), np.float32(0)
    c, d = np.float32(0), np.float32(0)
    p, end = local.indptr[row], local.indptr[row + np.uint32(1)]
    while p + np.uint32(4) <= end:
        a += local.values[p] * vector[local.indices[p], column]
        b += local.values[p + np.uint32(1)] * vector[local.indices[p + np.uint32(1)], column]
        c += local.values[p + np.uint32(2)] * vector[local.indices[p + np.uint32(2)], column]
        d += local.values[p + np.uint32(3)] * vector[local.indices[p + np.uint32(3)], column]
        p += np.uint32(4)
    while p < end:
        a += local.values[p] * vector[local.indices[p], column]
        p += np.uint32(1)
    return (a + b) + (c + d)


@tight
def _add_row(sums: F32, factor: Any, local: Local, row: Any) -> None:
    for p in range(local.indptr[row], local.indptr[row + np.uint32(1)]):
        sums[local.indices[p]] += factor * local.values[p]


@tight
def _recentre(halves: _Halves, half: Any, options: Options) -> Any:
    """Centres from the sums; returns what a row's own features weigh on the left and on the right."""
    left, right = float(half), float(len(halves.right) - half)
    if options.spherical:
        left, right = 0.0, 0.0
        for f in range(len(halves.total)):
            right += float(halves.on_right[f]) ** 2
            left += float(halves.total[f] - halves.on_right[f]) ** 2
        for i in range(len(halves.right)):
            if halves.right[i]:
                right += halves.alone[i]
            else:
                left += halves.alone[i]
        left, right = np.sqrt(left), np.sqrt(right)
    by_left = np.float32(1.0 / left if left > 0 else 0.0)
    by_right = np.float32(1.0 / right if right > 0 else 0.0)
    _fill_centres(halves, by_left, by_right, options)
    return by_left, by_right


@tight
def _fill_centres(halves: _Halves, by_left: Any, by_right: Any, options: Options) -> None:
    for f in range(len(halves.total)):
        on_left = (halves.total[f] - halves.on_right[f]) * by_left
        on_right = halves.on_right[f] * by_right
        if options.rule == SAME_SET:
            halves.centres[f, 0] = on_right - on_left
        else:
            halves.centres[f, 0], halves.centres[f, 1] = on_left, on_right


@tight
def _first_centres(local: Local, halves: _Halves, start: Any, options: Options) -> None:
    """Two rows as centres; `on_right` and `total` serve as scratch."""
    _add_row(halves.on_right, np.float32(1), local, np.uint32(start[1]))
    _add_row(halves.total, np.float32(1), local, np.uint32(start[0]))
    _add_row(halves.total, np.float32(1), local, np.uint32(start[1]))
    _fill_centres(halves, np.float32(1), np.float32(1), options)
    for f in range(len(halves.total)):
        halves.total[f], halves.on_right[f] = np.float32(0), np.float32(0)


@tight
def _score(local: Local, halves: _Halves, weights: Any, score: F32, options: Options) -> None:
    """Fill `score`, right minus left; `weights` = (of own features on the left, on the right, two first rows or -1)."""
    by_left, by_right, first, second = weights
    for i in range(len(score)):
        row = np.uint32(i)
        if first >= 0:
            part = halves.alone[i] if i == second else (-halves.alone[i] if i == first else np.float32(0))
        else:
            part = halves.alone[i] * (by_right if halves.right[i] else -by_left)
        if options.rule == SAME_SET:
            score[i] = _dot(halves.centres, 0, local, row) + part
        else:
            left, right = _dot(halves.centres, 0, local, row), _dot(halves.centres, 1, local, row)
            if part > 0:
                right += part
            else:
                left -= part
            score[i] = right - left
            halves.own[i, 0], halves.own[i, 1] = left, right


@tight
def _kth_smallest(values: F32, k: int) -> Any:
    """The value at place k (from 0) of the sorted values; leaves them in another order."""
    low, high = 0, len(values) - 1
    while low < high:
        pivot = values[(low + high) >> 1]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                kept = values[i]
                values[i] = values[j]
                values[j] = kept
                i += 1
                j -= 1
        if k <= j:
            high = j
        elif k >= i:
            low = i
        else:
            break
    return values[k]


@tight
def _upper_half(score: F32, spare: F32, half: int, right: Any) -> None:
    """False for the `half` smallest scores (ties by place), True for the others."""
    for i in range(len(score)):
        spare[i] = score[i]
    cut = _kth_smallest(spare, half)
    room = half
    for i in range(len(score)):
        room -= score[i] < cut
    for i in range(len(score)):
        right[i] = not (score[i] < cut or (score[i] == cut and room > 0))
        room -= score[i] == cut


@tight
def _move(local: Local, halves: _Halves, fresh: Any) -> int:
    """Take over the new sides; only rows that changed theirs move between the sums. Returns how many did."""
    moved = 0
    for i in range(len(fresh)):
        if fresh[i] != halves.right[i]:
            _add_row(halves.on_right, np.float32(1) if fresh[i] else np.float32(-1), local, np.uint32(i))
            halves.right[i] = fresh[i]
            moved += 1
    return moved


@tight
def _mean_own(halves: _Halves, fresh: Any) -> float:
    total = 0.0
    for i in range(len(fresh)):
        total += halves.own[i, 1 if fresh[i] else 0]
    return total / len(fresh)


@tight
def _iterate(local: Local, halves: _Halves, start: Any, options: Options, room: Any) -> None:
    score, spare, fresh = room
    n, half = len(fresh), len(fresh) // 2
    _first_centres(local, halves, start, options)
    for i in range(n):
        _add_row(halves.total, np.float32(1), local, np.uint32(i))
    weights, before = (np.float32(1), np.float32(1), start[0], start[1]), -np.inf
    for step in range(options.max_iter):
        _score(local, halves, weights, score, options)
        _upper_half(score, spare, half, fresh)
        mean = _mean_own(halves, fresh) if options.rule == SMALL_GAIN else 0.0
        moved = _move(local, halves, fresh)
        if step > 0 and (moved == 0 if options.rule == SAME_SET else mean - before < options.eps):
            return
        before = mean
        by_left, by_right = _recentre(halves, half, options)
        weights = (by_left, by_right, np.int64(-1), np.int64(-1))


@kernel
def halve(Z: Rows, members: U32, start: Any, options: Options, counts: U32) -> Any:
    """True where a row goes right: the halves of a balanced 2-means, left floor(n / 2).

    `start` names two different members as first centres; `counts` is scratch of one zero per feature.
    """
    return halve_local(gather(Z, members, counts), start, options)


@kernel
def halve_local(local: Local, start: Any, options: Options) -> Any:
    """The same for rows that are copied already."""
    n, width = len(local.indptr) - 1, len(local.features)
    gains = options.rule == SMALL_GAIN
    halves = _Halves(
        np.zeros(n, np.bool_),
        np.zeros(n, np.float32),
        np.zeros(width, np.float32),
        np.zeros(width, np.float32),
        np.zeros((width, 2 if gains else 1), np.float32),
        np.zeros((n if gains else 0, 2), np.float32),
    )
    for i in range(n):
        for p in range(local.alone_indptr[i], local.alone_indptr[i + 1]):
            halves.alone[i] += local.alone_values[p] ** 2
    room = np.empty(n, np.float32), np.empty(n, np.float32), np.zeros(n, np.bool_)
    _iterate(local, halves, start, options, room)
    return halves.right


def two_of(n: int, seed: int) -> A:
    """Two different numbers below `n`: one anywhere, the other at a random distance after it."""
    first = int(scramble(np.uint64(seed))) >> 1
    way = int(scramble(np.uint64(first))) >> 1
    return np.array([(first + 1 + way % (n - 1)) % n, first % n], np.int64)


def halve_dense(Z: A, start: A, options: Options) -> A:
    """The same split for dense rows, by matrix products."""
    n, half = len(Z), len(Z) // 2
    centre = Z[start].astype(np.float32)
    right, before = np.zeros(n, bool), -np.inf
    for step in range(options.max_iter):
        own = Z @ centre.T
        order = np.lexsort((np.arange(n), own[:, 1] - own[:, 0]))
        fresh = np.ones(n, bool)
        fresh[order[:half]] = False
        mean = float(np.where(fresh, own[:, 1], own[:, 0]).mean())
        done = np.array_equal(fresh, right) if options.rule == SAME_SET else mean - before < options.eps
        right = fresh
        if step > 0 and done:
            break
        before = mean
        centre = np.stack([Z[~right].sum(0), Z[right].sum(0)]).astype(np.float32)
        lengths = np.linalg.norm(centre, axis=1) if options.spherical else np.array([half, n - half], np.float64)
        centre /= np.where(lengths > 0, lengths, 1.0)[:, None].astype(np.float32)
    return right


def balanced_leaves(Z: Any, depth: int, *, seed: int, max_leaf: int = 0, options: Options | None = None) -> A:
    """(rows,) number of the leaf of each row after `depth` rounds of halving, leaves in tree order.

    With `max_leaf` a node that is small enough is not split further. `Z` is csr or dense. Splits start from rows that
    have features: from empty ones halves would be left as they lie.
    """
    rules, here = options or Options(), executor.current()
    rows: Any = Z if isinstance(Z, np.ndarray) else read_only(rows_of(Z))
    filled: A = np.asarray(Z.any(1)) if isinstance(Z, np.ndarray) else np.diff(rows.indptr.view(np.int64)) > 0
    place = None if here.remote else spill.current()
    shared = here.share((rows, filled, Z.shape[1], place))
    nodes: list[A] = [np.arange(Z.shape[0], dtype=np.uint32)]
    given: A | None = None  # numbers of the rows in Z, where they lie in another order now
    master = np.random.default_rng(seed)
    for _ in range(depth):
        seeds = master.integers(0, 2**62, len(nodes))
        sizes = np.array([len(node) for node in nodes])
        shards = [(nodes[a:b], seeds[a:b].tolist()) for a, b in executor.cut(sizes, here.pieces)]
        nodes = [node for part in here.stream(_split, shards, shared, rules, max_leaf) for node in part]
        if (
            place is not None
            and isinstance(rows, Rows)
            and place.takes(4 * max(_entries(rows, node) for node in nodes))
        ):
            order = np.concatenate(nodes)
            given = order if given is None else given[order]
            rows, filled = read_only(_laid_out(rows, order, place)), filled[order]
            shared = here.share((rows, filled, Z.shape[1], place))
            ends = np.cumsum([len(node) for node in nodes])
            nodes = [np.arange(end - len(node), end, dtype=np.uint32) for node, end in zip(nodes, ends, strict=True)]
    leaf = np.empty(Z.shape[0], np.int32)
    for number, node in enumerate(nodes):
        leaf[node if given is None else given[node]] = number
    return leaf


def _laid_out(rows: Rows, order: A, place: Spill) -> Rows:
    """Rows in files in the order of the nodes, so that those of a node are read one after the other."""
    indptr = np.zeros(len(order) + 1, np.uint64)
    np.cumsum(np.diff(rows.indptr)[order], out=indptr[1:])
    entries = int(indptr[-1])
    laid = Rows(indptr, place.empty(entries, np.uint32), place.empty(entries, np.float32))
    _copy(rows, order, laid)
    return laid


@kernel
def _copy(rows: Rows, order: U32, laid: Rows) -> None:
    for i in range(len(order)):
        at, start = laid.indptr[i], rows.indptr[order[i]]
        for p in range(rows.indptr[order[i] + np.uint32(1)] - start):
            laid.indices[at + p], laid.values[at + p] = rows.indices[start + p], rows.values[start + p]


def _split(
    shard: tuple[list[A], list[int]], shared: tuple[Any, A, int, Spill | None], rules: Options, max_leaf: int
) -> list[A]:
    """The halves of some nodes, each with a seed of its own; a node that is small enough stays whole."""
    rows, filled, width, place = shared
    dense = isinstance(rows, np.ndarray)
    halves: list[A] = []
    counts = np.zeros(0 if dense else width, np.uint32)
    for node, seed in zip(*shard, strict=True):
        if len(node) < 2 or len(node) <= max_leaf:
            halves.append(node)
            continue
        able = np.flatnonzero(filled[node])
        first = able[two_of(len(able), seed)] if len(able) > 1 else two_of(len(node), seed)
        if dense:
            right = halve_dense(rows[node], first, rules)
        elif place is not None and place.takes(4 * _entries(rows, node)):
            right = halve_local(gather_spilled(rows, read_only(node), counts, place), first, rules)
        else:
            right = halve(rows, read_only(node), first, rules, counts)
        halves += [node[~right], node[right]]
    return halves


def _entries(rows: Rows, node: A) -> int:
    """Entries of some rows."""
    return int((rows.indptr[node + np.uint32(1)] - rows.indptr[node]).sum())
