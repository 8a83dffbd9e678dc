"""Dual coordinate descent for many L2-regularised binary problems that share their rows, up to sixteen at a time.

Each problem minimises 0.5 |w|^2 + sum_i c_i loss(y_i (w.x_i + b)), the bias being the weight of a constant feature
(LIBLINEAR's rule: random order in every pass, stop when the projected gradients lie within `eps`). All problems of a
group see the same rows in the same order, so a row is read once for sixteen of them. A feature that only one row has
is folded into that row's diagonal: its weight is y_i alpha_i x_if, whatever the others do. Once no problem waits for a
lane, rows that are settled in all lanes sleep until the other rows are within `eps`; then all are looked at again.

More rows than a block are dealt to blocks at random. A pass visits one block after the other, the rows of each in
random order, so that rows and duals that lie in files (`core/spill.py`) are read once in a pass.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treetop.core.spill import Spill
from treetop.kernels.linear.lane_steps import AWAKE, FAR, MOVED, box_step, logistic_step
from treetop.kernels.linear.lanes import (
    BIAS,
    HIGH,
    HIGH_BEFORE,
    LOW,
    LOW_BEFORE,
    MARGIN,
    STEP,
    WIDTH,
    add_products,
    spread_row,
)
from treetop.kernels.linear.prune import collect, keep_largest
from treetop.kernels.runtime.compile import kernel, tight
from treetop.kernels.runtime.prefetch import prefetch
from treetop.kernels.sparse import F32, U32, Local, Rows, gather, gather_spilled, grown, scramble, shuffle

SQUARED_HINGE, HINGE, LOGISTIC = 0, 1, 2
LOSSES = {"squared_hinge": SQUARED_HINGE, "hinge": HINGE, "logistic": LOGISTIC}

NARROW, WIDE = (0,) * 2, (0,) * WIDTH  # lanes of a group: their number is the length of a type
SMALL = 0.1  # of eps: a logistic dual with a smaller gradient rests


class Settings(NamedTuple):
    """How one problem is solved and pruned."""

    loss: int = SQUARED_HINGE
    cost_positive: float = 1.0
    cost_negative: float = 1.0
    bias: float = 1.0  # value of the constant feature; 0: no bias
    eps: float = 0.1
    max_passes: int = 100
    threshold: float = 0.1  # weights below are dropped
    max_nonzeros: int = 0  # per problem, the largest; 0: no cap
    block: int = 1 << 20  # rows that are visited before the next ones


class Problems(NamedTuple):
    """Targets, problem by problem: rows of positives, their cost factor (if any), rows to leave out."""

    positives: Rows
    left_out: Rows


class Group(NamedTuple):
    """Problems solved over the same rows; a row not `inside` takes part only where it is positive."""

    problems: U32
    rows: U32
    inside: Any  # (n_rows,) uint8
    seed: int


class Columns(NamedTuple):
    """Weights per problem: `counts` entries each, feature ids in no special order.

    `bias` is what the constant feature adds to a margin: its weight times its value.
    """

    counts: U32
    features: U32
    values: F32
    bias: F32


class _Lanes(NamedTuple):
    w: Any  # (n_shared, width)
    alpha: Any  # (n_rows, width) duals; for the logistic loss log(dual / (c - dual))
    side: Any  # (n_rows, width) sign = y; size = 1 / (2 c) for the squared hinge (inf: absent), else c (0: absent)
    state: Any  # (7, width), see kernels/lanes.py
    width: Any  # a tuple of that many numbers: its length is known while compiling


@kernel
def _new_lanes(n_rows: int, n_features: int, settings: Settings, width: Any) -> _Lanes:
    return _as_new(
        (
            np.empty((n_features, len(width)), np.float32),
            np.empty((n_rows, len(width)), np.float32),
            np.empty((n_rows, len(width)), np.float32),
        ),
        settings,
        width,
    )


@kernel
def _as_new(arrays: Any, settings: Settings, width: Any) -> _Lanes:
    """Lanes without problems, in arrays for (w, alpha, side)."""
    w, alpha, side = arrays
    w[:] = np.float32(0)
    alpha[:] = _first(settings)
    side[:] = _side(settings, 0.0)
    return _Lanes(w, alpha, side, np.zeros((STEP + 1, len(width)), np.float32), width)


@tight
def _first(settings: Settings) -> np.float32:
    """How a zero dual is stored."""
    return np.float32(-FAR) if settings.loss == LOGISTIC else np.float32(0)


@tight
def _side(settings: Settings, cost: float) -> np.float32:
    if settings.loss == SQUARED_HINGE:
        return np.float32(np.inf) if cost <= 0.0 else np.float32(0.5 / cost)
    return np.float32(cost)


@tight
def _enter(into: Any, lane: int, problem: int, given: Any, settings: Settings) -> None:
    """Put a problem into a lane of `into` = (side, alpha): its sides, and zero duals."""
    side, alpha = into
    problems, inside, place = given
    negative, absent = -_side(settings, settings.cost_negative), _side(settings, 0.0)
    for i in range(len(inside)):
        side[i, lane] = negative if inside[i] else absent
        alpha[i, lane] = _first(settings)
    left_out, positives = problems.left_out, problems.positives
    if len(left_out.indptr) > 1:
        for p in range(left_out.indptr[problem], left_out.indptr[problem + 1]):
            i = place[left_out.indices[p]]
            if i > 0:
                side[i - np.uint32(1), lane] = absent
    weighted = len(positives.values) > 0
    for p in range(positives.indptr[problem], positives.indptr[problem + 1]):
        i = place[positives.indices[p]]
        if i > 0:
            cost = settings.cost_positive * (positives.values[p] if weighted else 1.0)
            side[i - np.uint32(1), lane] = _side(settings, cost)


@tight
def _clear(side: F32, alpha: F32, lane: int, settings: Settings) -> None:
    """Take a finished problem out of a lane."""
    for i in range(len(side)):
        side[i, lane] = _side(settings, 0.0)
        alpha[i, lane] = _first(settings)


@tight
def _ask(local: Local, lanes: _Lanes, soon: Any, later: Any, diagonal: Any) -> None:
    """Prefetch a row that is visited soon: in random order the processor cannot predict it."""
    width = np.uint64(len(lanes.width))
    prefetch(local.indptr, np.uint64(later))
    begin, end = np.uint64(local.indptr[soon]), np.uint64(local.indptr[soon + np.uint32(1)])
    prefetch(lanes.alpha, np.uint64(soon) * width)
    prefetch(lanes.side, np.uint64(soon) * width)
    prefetch(diagonal, np.uint64(soon) * np.uint64(2))
    for p in range(begin, end, np.uint64(16)):
        prefetch(local.indices, p)
        prefetch(local.values, p)


@tight
def _read_block(local: Local, lanes: _Lanes, rows: U32) -> None:
    """Look at every page of the rows from the first to the last, as a file is read much faster in order than at random.

    Their sum goes where the next row writes anyway, so that the compiler leaves nothing out.
    """
    first, last = rows[0], rows[0]
    for i in rows:
        first, last = min(first, i), max(last, i)
    total = np.float32(0)
    for p in range(local.indptr[first], local.indptr[last + np.uint32(1)], np.uint64(1024)):
        total += local.values[p] + np.float32(local.indices[p])
    for i in range(first, last + np.uint32(1), np.uint32(1024 // len(lanes.width))):
        total += lanes.alpha[i, 0] + lanes.side[i, 0]
    lanes.state[STEP, 0] = total


@tight
def _pass(local: Local, lanes: _Lanes, order: U32, diagonal: Any, settings: Settings) -> int:
    """Visit the rows of `order` once; active ones move to its front. Returns their number."""
    lanes.state[HIGH] = -np.inf
    lanes.state[LOW] = np.inf
    bias, awake, small = np.float32(settings.bias), np.uint64(0), np.float32(SMALL * settings.eps)
    blocks = len(lanes.alpha) > settings.block
    for k in range(len(order)):
        if blocks and k % settings.block == 0:
            _read_block(local, lanes, order[k : min(k + settings.block, len(order))])
        i = order[k]
        if k + 4 < len(order):
            _ask(local, lanes, order[k + 2], order[k + 4], diagonal)
        begin, end = local.indptr[i], local.indptr[i + np.uint32(1)]
        for lane in range(len(lanes.width)):
            lanes.state[MARGIN, lane] = bias * lanes.state[BIAS, lane]
        add_products(lanes, local, begin, end)
        numbers = (diagonal[i, 0], diagonal[i, 1], bias)
        if settings.loss == LOGISTIC:
            news = logistic_step(lanes, i, numbers, small)
        else:
            news = box_step(lanes, i, numbers, settings.loss == SQUARED_HINGE)
        if news & MOVED:
            spread_row(lanes, local, begin, end)
        if news & AWAKE:
            order[k] = order[awake]
            order[awake] = i
            awake += np.uint64(1)
    return np.int64(awake)  # type: ignore[return-value]  # an `int` of it would stay unsigned


@tight
def _remember(state: F32, known: bool) -> None:
    """Keep the extreme gradients of the pass: duals that are further beyond their bound are shrunk."""
    for lane in range(state.shape[1]):
        low, high = state[LOW, lane], state[HIGH, lane]
        state[LOW_BEFORE, lane] = low if known and low < 0.0 else -np.float32(np.inf)
        state[HIGH_BEFORE, lane] = high if known and high > 0.0 else np.float32(np.inf)


@kernel
def _diagonal(local: Local, bias: float) -> Any:
    """Per row: its squared length with the constant feature, and the part of features that no other row has."""
    diagonal = np.zeros((len(local.indptr) - 1, 2), np.float32)
    for i in range(len(diagonal)):
        shared, alone = bias * bias, 0.0
        for p in range(local.indptr[i], local.indptr[i + 1]):
            shared += local.values[p] * local.values[p]
        for p in range(local.alone_indptr[i], local.alone_indptr[i + 1]):
            alone += local.alone_values[p] * local.alone_values[p]
        diagonal[i, 0], diagonal[i, 1] = shared + alone, alone
    return diagonal


@kernel
def solve_group(X: Rows, problems: Problems, group: Group, settings: Settings, scratch: Any) -> Columns:
    """Weights of every problem of the group; `scratch` is one zero per feature and one per row, left zero."""
    counts, place = scratch
    rows, inside, order, state = _shuffled(group, place, settings.block)
    local = gather(X, rows, counts)
    given, task = (problems, inside, place), (group.problems, order, state, settings)
    if len(group.problems) <= len(NARROW):
        solved = _run(local, _new_lanes(len(rows), len(local.features), settings, NARROW), given, task)
    else:
        solved = _run(local, _new_lanes(len(rows), len(local.features), settings, WIDE), given, task)
    place[rows] = np.uint32(0)
    return solved


def solve_group_spilled(
    X: Rows, problems: Problems, group: Group, settings: Settings, scratch: Any, spill: Spill
) -> Columns:
    """The same with large arrays in files."""
    counts, place = scratch
    rows, inside, order, state = _shuffled(group, place, settings.block)
    local = gather_spilled(X, rows, counts, spill)
    width = NARROW if len(group.problems) <= len(NARROW) else WIDE
    lengths = (len(local.features), len(rows), len(rows))
    lanes = _as_new(tuple(spill.empty((n, len(width)), np.float32) for n in lengths), settings, width)
    task = (group.problems, order, np.uint64(state), settings)  # kernels return plain integers
    solved = _run(local, lanes, (problems, inside, place), task)
    place[rows] = np.uint32(0)
    return solved


def solving_bytes(group: Group, entries: int) -> int:
    """Bytes of the largest arrays of a group whose rows have so many entries."""
    width = len(NARROW) if len(group.problems) <= len(NARROW) else len(WIDE)
    return 4 * max(entries, len(group.rows) * width)


@kernel
def _shuffled(group: Group, place: U32, block: int) -> Any:
    """(rows in random order, whether each is inside, the order, random state); `place` learns where rows are.

    The rows of a block ascend, so that they are gathered in the order in which they lie.
    """
    rows, inside = group.rows.copy(), np.empty(len(group.rows), np.uint8)
    order = np.arange(len(rows)).astype(np.uint32)
    state = shuffle(order, scramble(np.uint64(group.seed)))
    if len(rows) > block:
        for start in range(0, len(rows), block):
            order[start : start + block].sort()
    for i in range(len(rows)):
        rows[i], inside[i] = group.rows[order[i]], group.inside[order[i]]
        place[rows[i]] = np.uint32(i + 1)
    return rows, inside, order, state


@kernel
def _run(local: Local, lanes: _Lanes, given: Any, task: Any) -> Columns:
    """Passes until every problem is done; a lane that is done takes the next problem at once."""
    wanted, order, state, settings = task
    diagonal = _diagonal(local, settings.bias)
    n, width, rule = len(wanted), len(lanes.width), (np.float32(settings.threshold), settings.loss == LOGISTIC)
    counts, bias = np.zeros(n, np.uint32), np.zeros(n, np.float32)
    starts, spare = np.zeros(n, np.int64), np.empty(max(0, settings.max_nonzeros), np.float32)
    most = len(local.features) + len(local.alone_features)
    features, values, used = np.empty(max(most, 1), np.uint32), np.empty(max(most, 1), np.float32), 0
    holds, age = np.full(width, -1, np.int64), np.zeros(width, np.int64)
    following = 0
    for lane in range(min(width, n)):
        holds[lane], following = lane, lane + 1
        _enter((lanes.side, lanes.alpha), lane, wanted[lane], given, settings)
    live, active = min(width, n), len(order)
    _remember(lanes.state, False)
    while live > 0:
        state = _reorder(order, active, settings.block, state)
        awake = _pass(local, lanes, order[:active], diagonal, settings)
        age += 1
        whole = active == len(order)
        sleep = following >= n and not _look_again(lanes.state, holds, age, settings)
        active = awake if sleep else len(order)
        _remember(lanes.state, sleep)
        if not whole:
            continue
        for lane in range(width):
            k = holds[lane]
            if k < 0 or not _done(lanes.state, lane, age[lane], settings):
                continue
            features, values = grown(features, used + most), grown(values, used + most)
            found = collect(local, (lanes.w, lanes.alpha, lanes.side), lane, rule, (features[used:], values[used:]))
            kept_bias = lanes.state[BIAS, lane] * np.float32(settings.bias)
            kept_bias = kept_bias if abs(kept_bias) >= rule[0] else np.float32(0)
            end = used + found
            found, own_bias = keep_largest(features[used:end], values[used:end], kept_bias, spare)
            counts[k], bias[k], starts[k] = found, own_bias, used
            used += found
            lanes.state[BIAS, lane], age[lane], holds[lane] = 0.0, 0, -1
            if following < n:
                holds[lane] = following
                _enter((lanes.side, lanes.alpha), lane, wanted[following], given, settings)
                following += 1
            else:
                live -= 1
                _clear(lanes.side, lanes.alpha, lane, settings)
    return _in_order(counts, starts, features, values, bias)


@tight
def _reorder(order: U32, active: int, block: int, state: Any) -> Any:
    """A new order of the first `active` rows, random within each block."""
    if len(order) > block and active == len(order):  # rows that slept are no longer where their block is
        for k in range(len(order)):
            order[k] = np.uint32(k)
    for start in range(0, active, block):
        state = shuffle(order[start : min(start + block, active)], state)
    return state


@tight
def _done(state: F32, lane: int, age: int, settings: Settings) -> bool:
    """Whether the gradients of a lane lie within eps, or its passes are used up."""
    low, high = state[LOW, lane], state[HIGH, lane]
    if settings.loss == LOGISTIC:
        return max(-low, high) <= settings.eps or age >= settings.max_passes
    return high - low <= settings.eps or age >= settings.max_passes


@tight
def _look_again(state: F32, holds: Any, age: Any, settings: Settings) -> bool:
    """Whether the next pass must include shrunk rows: all lanes seem done, or one is in its last pass."""
    ready = True
    for lane in range(state.shape[1]):
        if holds[lane] >= 0:
            if age[lane] + 1 >= settings.max_passes:
                return True
            ready &= _done(state, lane, age[lane], settings)
    return ready


@kernel
def _in_order(counts: U32, starts: Any, features: U32, values: F32, bias: F32) -> Columns:
    """Columns in the order of the problems, not of their completion."""
    total = 0
    for count in counts:
        total += count
    ordered = Columns(counts, np.empty(total, np.uint32), np.empty(total, np.float32), bias)
    at = 0
    for k in range(len(counts)):
        found = counts[k]
        ordered.features[at : at + found] = features[starts[k] : starts[k] + found]
        ordered.values[at : at + found] = values[starts[k] : starts[k] + found]
        at += found
    return ordered
