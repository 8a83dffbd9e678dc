"""Thousands of linear problems that share their rows: the minimum over all rows, found on a working set of few.

A rare target leaves nearly every negative row beyond its margin, where the squared hinge and its gradient are zero. So:
solve over the positives and the negatives that look most like them, score every row through the inverted index, take in
those that fall short of the margin, and repeat until what is left outside adds next to nothing. The result is the
minimum of the whole problem, to the accuracy that Newton steps over all rows would stop at. Rows that share no feature
with those taken in all have the bias as margin: one row represents them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treetop.kernels.linear.newton import Design, Penalty, Rules, dot, newton
from treetop.kernels.runtime.compile import kernel, tight
from treetop.kernels.sparse import F32, U32, U64, Rows, grown, rows_of

MOST_ROUNDS = 100
CLOSE, FIRST, FIRST_PER_POSITIVE = 0.02, 64, 6  # which rows are taken in; moves time, not the result


class Postings(NamedTuple):
    """X by columns: pairs (row, value) in one buffer, viewed both as integers and as floats."""

    ptr: U64
    rows: U32  # of column f: rows[2 p] for p in ptr[f] .. ptr[f + 1]
    values: F32  # values[2 p + 1]


class Shared(NamedTuple):
    """What all problems have in common: X by rows and by columns, the sum of its rows, and the caller's columns."""

    rows: Rows
    postings: Postings
    total: Any  # (n_features,) float64
    columns: U32


class Settings(NamedTuple):
    """How each problem is stated, solved and pruned."""

    penalty: Penalty = Penalty()
    rules: Rules = Rules()
    eps: float = 0.01  # of the gradient at zero, times the share of the rarer side
    gap: float = 5e-4  # share of the objective that rows outside may add
    threshold: float = 0.01  # weights below are dropped
    all_rows: bool = False  # Newton steps over every row instead


class Targets(NamedTuple):
    """Problem by problem: rows of positives, rows to leave out, and the cost of errors on either side."""

    positives: Rows
    left_out: Rows
    cost_positive: F32
    cost_negative: F32


class Scratch(NamedTuple):
    """One per thread, restored after use: a float and a zero byte per row, two zeros per feature."""

    margin: F32
    inside: Any  # uint8
    place: U32
    weights: F32


class WorkingSet(NamedTuple):
    """The rows in the working set so far, with their features numbered in order of arrival."""

    design: Design
    side: Any
    features: U32
    w: Any  # weights of `features`, then the bias


class Solved(NamedTuple):
    """Weights per problem: `counts` entries each, the bias, the objective and how many rows and rounds it took."""

    counts: U32
    features: U32
    values: F32
    bias: F32
    objective: Any
    rows: Any
    rounds: Any


def share(X: Any) -> Shared:
    """What problems over the csr matrix X share. Frequent columns come first, so that hot memory is contiguous."""
    order = np.argsort(-np.bincount(X.indices, minlength=X.shape[1]), kind="stable")
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    mixed = type(X)((X.data.copy(), place[X.indices], X.indptr), X.shape)
    mixed.sort_indices()
    columns = rows_of(mixed.tocsc())
    pairs = np.empty((len(columns.indices), 2), np.uint32)
    pairs[:, 0], pairs[:, 1] = columns.indices, columns.values.view(np.uint32)
    flat = pairs.reshape(-1)
    total = np.asarray(mixed.sum(0, dtype=np.float64)).ravel()
    return Shared(rows_of(mixed), Postings(columns.indptr, flat, flat.view(np.float32)), total, order.astype(np.uint32))


def new_scratch(shared: Shared) -> Scratch:
    """Scratch for one thread."""
    n, d = len(shared.rows.indptr) - 1, len(shared.total)
    return Scratch(np.zeros(n, np.float32), np.zeros(n, np.uint8), np.zeros(d, np.uint32), np.zeros(d, np.float32))


@kernel
def take_in(working: WorkingSet, rows: U32, side: float, X: Rows, scratch: Scratch) -> WorkingSet:
    """`working` with more rows; new features start with weight zero."""
    old, n, d = working.design, len(working.side), len(working.features)
    nnz = np.uint64(len(old.indices))
    for row in rows:
        nnz += X.indptr[row + np.uint32(1)] - X.indptr[row]
    indptr = np.empty(n + len(rows) + 1, np.uint64)
    indices, values = np.empty(nnz, np.uint32), np.empty(nnz, np.float32)
    indptr[: n + 1], indices[: len(old.indices)], values[: len(old.values)] = old.indptr, old.indices, old.values
    features = np.empty(d + int(nnz) - len(old.indices), np.uint32)
    features[:d] = working.features
    at = np.uint64(len(old.indices))
    for k in range(len(rows)):
        row = rows[k]
        scratch.inside[row] = np.uint8(1)
        for p in range(X.indptr[row], X.indptr[row + np.uint32(1)]):
            f = X.indices[p]
            if scratch.place[f] == np.uint32(0):
                features[d] = f
                d += 1
                scratch.place[f] = np.uint32(d)
            indices[at], values[at] = scratch.place[f] - np.uint32(1), X.values[p]
            at += np.uint64(1)
        indptr[n + k + 1] = at
    w = np.zeros(d + 1)
    w[: len(working.w) - 1], w[d] = working.w[:-1], working.w[len(working.w) - 1]
    design = Design(indptr, indices, values, np.empty((n + len(rows), 0), np.float32))
    return WorkingSet(design, np.concatenate((working.side, np.full(len(rows), side))), features[:d].copy(), w)


@kernel
def _background(cost: float) -> WorkingSet:
    """One row without features that represents all rows no weight reaches: they share one margin, the bias."""
    design = Design(
        np.zeros(2, np.uint64), np.empty(0, np.uint32), np.empty(0, np.float32), np.empty((1, 0), np.float32)
    )
    return WorkingSet(design, np.full(1, -cost), np.empty(0, np.uint32), np.zeros(1))


@kernel
def start(working: WorkingSet, cost_negative: float, shared: Shared) -> Any:
    """(norm of the gradient at zero, u, v, mean of the positives) over the rows of the working set, the first of which
    is artificial.

    The mean-separating start is u mean(positives) + v mean(all), with margin 1 at the mean of the positives and -2 on
    average over the negatives; the constant feature is part of both means.
    """
    n, found, last = float(len(shared.rows.indptr) - 1), len(working.side) - 1, len(working.w) - 1
    pulled, mean = np.zeros(last + 1), np.zeros(last + 1)
    for i in range(1, found + 1):
        cost = working.side[i] + cost_negative
        for p in range(working.design.indptr[i], working.design.indptr[i + 1]):
            j = working.design.indices[p]
            pulled[j] += cost * working.design.values[p]
            mean[j] += working.design.values[p] / found
        pulled[last] += cost
    square = n * n + dot(shared.total, shared.total)
    length = cost_negative * cost_negative * square + pulled[last] * (pulled[last] - 2.0 * cost_negative * n)
    pp, pa, aa = 1.0 + dot(mean, mean), 1.0, square / (n * n)
    for j in range(last):
        here = shared.total[working.features[j]]
        length += pulled[j] * (pulled[j] - 2.0 * cost_negative * here)
        pa += mean[j] * here / n
    below, u, v = pa * pa - pp * aa, 0.0, -1.0
    if abs(below) > 1e-12:
        u = ((3.0 * found / n - 2.0) * pa - aa) / below
        v = (1.0 - u * pp) / pa
    return 2.0 * np.sqrt(max(length, 0.0)), u, v, mean


@kernel
def score(postings: Postings, working: WorkingSet, scratch: Scratch) -> None:
    """Margins of all rows through the inverted index, which is walked in memory order."""
    weights, margin = scratch.weights, scratch.margin
    margin[:] = np.float32(working.w[len(working.w) - 1])
    for j in range(len(working.features)):
        weights[working.features[j]] = np.float32(working.w[j])
    for f in range(len(weights)):
        weight = weights[f]
        if weight != 0.0:
            weights[f] = 0.0
            for p in range(postings.ptr[f], postings.ptr[f + 1]):
                margin[postings.rows[2 * p]] += weight * postings.values[2 * p + np.uint64(1)]


@kernel
def _best_outside(scratch: Scratch, most: int, floor: float, bias: Any) -> U32:
    """Touched rows outside with a margin above `floor`; where there are more than about `most`, the highest of them."""
    n, steps = len(scratch.margin), 512
    low = np.float32(floor)
    high, above = low, 0
    for i in range(n):
        if scratch.inside[i] == 0 and scratch.margin[i] > low and scratch.margin[i] != bias:
            above += 1
            high = max(high, scratch.margin[i])
    first, scale = 0, np.float32(steps) / max(high - low, np.float32(1e-30))
    if above > most:
        counts = np.zeros(steps + 1, np.int64)
        for i in range(n):
            if scratch.inside[i] == 0 and scratch.margin[i] > low and scratch.margin[i] != bias:
                counts[min(int((scratch.margin[i] - low) * scale), steps)] += 1
        kept, first = 0, steps + 1
        while first > 0 and kept < most:
            first -= 1
            kept += counts[first]
    made, found = np.empty(above, np.uint32), 0
    for i in range(n):
        here = scratch.margin[i]
        if scratch.inside[i] == 0 and here > low and here != bias and min(int((here - low) * scale), steps) >= first:
            made[found] = np.uint32(i)
            found += 1
    return made[:found]


@tight
def _left(scratch: Scratch, cost: float, bias: Any) -> Any:
    """(loss of the touched rows outside, number of the others: no weight reaches them, their margin is the bias)."""
    total, untouched = 0.0, 0
    for i in range(len(scratch.margin)):
        if scratch.inside[i] == 0:
            if scratch.margin[i] == bias:
                untouched += 1
            elif scratch.margin[i] > -1.0:
                total += cost * (1.0 + scratch.margin[i]) ** 2
    return total, untouched


@kernel
def _rounds(shared: Shared, working: WorkingSet, cost_negative: float, settings: Settings, scratch: Scratch) -> Any:
    """(working set, objective, rounds) at the minimum; `working` starts with the background row and the positives."""
    n, n_positive, last = len(scratch.margin), len(working.side) - 1, len(working.w) - 1
    norm, u, v, mean = start(working, cost_negative, shared)
    # of the start only the sparse part and the bias: the mean of all rows moves no margin by more than hundredths
    working.w[:last], working.w[last] = u * mean[:last], u + v
    tolerance = settings.eps * max(min(n_positive, n - n_positive), 1) / n * norm
    score(shared.postings, working, scratch)
    bias = np.float32(working.w[last])
    fresh = _best_outside(scratch, FIRST + FIRST_PER_POSITIVE * n_positive, u + v, bias)
    rounds, value, standing = 0, 0.0, n
    while True:
        rounds += 1
        working = take_in(working, fresh, -cost_negative, shared.rows, scratch)
        wanted = tolerance * (10.0 if rounds == 1 else 0.5)  # the first answer only says which rows matter
        ended = newton(working.design, working.side, working.w, settings.penalty, (wanted, settings.rules))
        score(shared.postings, working, scratch)
        bias = np.float32(working.w[len(working.w) - 1])
        short, untouched = _left(scratch, cost_negative, bias)
        value = ended.objective + short
        # with a gradient of length t the objective is at most t^2 / 2 above its minimum
        close = ended.gradient <= tolerance and short <= min(0.5 * tolerance * tolerance, settings.gap * value)
        if (close and (bias <= -1.0 or untouched == standing)) or rounds >= MOST_ROUNDS:
            return working, value, rounds
        standing, working.side[0] = untouched, -cost_negative * untouched
        fresh = _best_outside(scratch, 1000 + 2 * len(working.side), -1.0 - CLOSE, bias)


@kernel
def _over_all(shared: Shared, working: WorkingSet, costs: Any, settings: Settings, scratch: Scratch) -> Any:
    """The same by Newton steps over every row, from the whole mean-separating start."""
    cost_positive, cost_negative = costs
    n, n_positive, d = len(scratch.margin), len(working.side) - 1, len(shared.total)
    norm, u, v, mean = start(working, cost_negative, shared)
    tolerance = settings.eps * max(min(n_positive, n - n_positive), 1) / n * norm
    w, side = np.empty(d + 1), np.empty(n)
    w[:d], w[d] = v / n * shared.total, u + v
    for j in range(len(working.features)):
        w[working.features[j]] += u * mean[j]
    for i in range(n):
        side[i] = -cost_negative if scratch.inside[i] == 0 else cost_positive if scratch.inside[i] == 1 else 0.0
    design = Design(shared.rows.indptr, shared.rows.indices, shared.rows.values, np.empty((n, 0), np.float32))
    ended = newton(design, side, w, settings.penalty, (tolerance, settings.rules))
    return WorkingSet(working.design, side, np.arange(d).astype(np.uint32), w), ended.objective, 1


@kernel
def solve_block(shared: Shared, targets: Targets, span: Any, settings: Settings, scratch: Scratch) -> Solved:
    """Pruned weights of the problems in `span`; one whose positives have no feature gets none and a bias of zero."""
    first, end = span
    n = end - first
    counts, bias, rows, rounds = np.zeros(n, np.uint32), np.zeros(n, np.float32), np.zeros(n), np.zeros(n)
    values, features, objective = np.empty(1024, np.float32), np.empty(1024, np.uint32), np.zeros(n)
    used = 0
    for k in range(n):
        mine = targets.positives.indptr[first + k], targets.positives.indptr[first + k + 1]
        positives = targets.positives.indices[mine[0] : mine[1]]
        cost = float(targets.cost_positive[first + k]), float(targets.cost_negative[first + k])
        working = take_in(_background(cost[1] * len(scratch.margin)), positives, cost[0], shared.rows, scratch)
        if len(working.features):
            seen = working.features
            if len(targets.left_out.indptr) > 1:
                for p in range(targets.left_out.indptr[first + k], targets.left_out.indptr[first + k + 1]):
                    scratch.inside[targets.left_out.indices[p]] |= np.uint8(2)
            if settings.all_rows:
                working, objective[k], rounds[k] = _over_all(shared, working, cost, settings, scratch)
            else:
                working, objective[k], rounds[k] = _rounds(shared, working, cost[1], settings, scratch)
                seen = working.features
            for f in seen:
                scratch.place[f] = np.uint32(0)
            features = grown(features, used + len(working.features))
            values = grown(values, used + len(working.features))
            begin = used
            for j in range(len(working.features)):
                if abs(working.w[j]) >= settings.threshold and working.w[j] != 0.0:
                    features[used], values[used] = shared.columns[working.features[j]], np.float32(working.w[j])
                    used += 1
            counts[k], bias[k], rows[k] = used - begin, working.w[len(working.w) - 1], len(working.side)
        scratch.inside[:] = np.uint8(0)
    return Solved(counts, features[:used].copy(), values[:used].copy(), bias, objective, rows, rounds)
