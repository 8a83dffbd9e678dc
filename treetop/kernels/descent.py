"""Dual coordinate descent for many L2-regularised binary problems that share their rows, sixteen at a time.

Each problem minimises 0.5 |w|^2 + sum_i c_i loss(y_i (w.x_i + b)), the bias being the weight of a constant feature
(LIBLINEAR's rule: random order in every pass, stop when the projected gradients lie within `eps`). All problems of a
group see the same rows in the same order, so a row is read once for sixteen of them. A feature that only one row has
is folded into that row's diagonal: its weight is y_i alpha_i x_if, whatever the others do.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treetop.kernels.compile import kernel, tight
from treetop.kernels.lanes import BIAS, HIGH, LOW, MARGIN, STEP, WIDTH, add_products, box_step, spread_row
from treetop.kernels.sparse import F32, U32, Local, Rows, gather, grown_f32, grown_u32, scramble, shuffle

SQUARED_HINGE, HINGE, LOGISTIC = 0, 1, 2
LOSSES = {"squared_hinge": SQUARED_HINGE, "hinge": HINGE, "logistic": LOGISTIC}


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


class Problems(NamedTuple):
    """Targets, problem by problem: rows of positives, their cost factor (or nothing), rows to leave out."""

    positives: Rows
    left_out: Rows


class Group(NamedTuple):
    """Problems solved over the same rows; a row not `inside` takes part only where it is positive."""

    problems: U32
    rows: U32
    inside: Any  # (n_rows,) uint8
    seed: int


class Columns(NamedTuple):
    """Weights per problem: `counts` entries each, feature ids in no special order, and the bias."""

    counts: U32
    features: U32
    values: F32
    bias: F32


class _Lanes(NamedTuple):
    w: Any  # (n_shared, 16)
    alpha: Any  # (n_rows, 16)
    side: Any  # (n_rows, 16) sign = y; size = 1 / (2 c) for the squared hinge (inf: absent), else c (0: absent)
    state: Any  # (5, 16) margin, bias, lowest and highest projected gradient, step


@kernel
def _new_lanes(n_rows: int, n_features: int, absent: Any) -> _Lanes:
    return _Lanes(
        np.zeros((n_features, WIDTH), np.float32),
        np.zeros((n_rows, WIDTH), np.float32),
        np.full((n_rows, WIDTH), absent, np.float32),
        np.zeros((5, WIDTH), np.float32),
    )


@tight
def _side(settings: Settings, cost: float) -> np.float32:
    if settings.loss == 0:
        return np.float32(np.inf) if cost <= 0.0 else np.float32(0.5 / cost)
    return np.float32(cost)


@tight
def _enter(lanes: _Lanes, lane: int, problem: int, given: Any, settings: Settings) -> None:
    """Put a problem into a lane: its sides, and zero duals."""
    problems, inside, place = given
    negative, absent = -_side(settings, settings.cost_negative), _side(settings, 0.0)
    for i in range(len(inside)):
        lanes.side[i, lane] = negative if inside[i] else absent
        lanes.alpha[i, lane] = 0.0
    left_out, positives = problems.left_out, problems.positives
    if len(left_out.indptr) > 1:
        for p in range(left_out.indptr[problem], left_out.indptr[problem + 1]):
            i = place[left_out.indices[p]]
            if i > 0:
                lanes.side[i - np.uint32(1), lane] = absent
    weighted = len(positives.values) > 0
    for p in range(positives.indptr[problem], positives.indptr[problem + 1]):
        i = place[positives.indices[p]]
        if i > 0:
            cost = settings.cost_positive * (positives.values[p] if weighted else 1.0)
            lanes.side[i - np.uint32(1), lane] = _side(settings, cost)


@tight
def _clear(lanes: _Lanes, lane: int, absent: Any) -> None:
    """Take a finished problem out of a lane."""
    for i in range(len(lanes.side)):
        lanes.side[i, lane] = absent
        lanes.alpha[i, lane] = 0.0


@tight
def _logistic_dual(old: float, cost: float, square: float, rest: float) -> float:
    """The z in (0, cost) with square * z + rest + log(z / (cost - z)) = 0, by Newton steps kept inside a bracket."""
    low, high = 0.0, cost
    z = min(max(old, 1e-3 * cost), (1.0 - 1e-3) * cost)
    for _ in range(50):
        value = square * z + rest + np.log(z / (cost - z))
        if abs(value) < 1e-4:
            break
        if value > 0.0:
            high = z
        else:
            low = z
        z -= value / (square + cost / (z * (cost - z)))
        if not low < z < high:
            z = 0.5 * (low + high)
        if high - low < 1e-9 * cost:
            break
    return z


@tight
def _step_logistic(lanes: _Lanes, i: Any, numbers: Any) -> None:
    """The exact minimum over one dual variable; the gradient there is y m + log(alpha / (c - alpha))."""
    zero, one, state = np.float32(0), np.float32(1), lanes.state
    square, alone, bias = numbers
    for lane in range(WIDTH):
        cost, old = abs(lanes.side[i, lane]), lanes.alpha[i, lane]
        state[STEP, lane] = zero
        if cost > zero:
            y = np.copysign(one, lanes.side[i, lane])
            margin = y * state[MARGIN, lane] + alone * old
            inner = min(max(float(old), 1e-8 * cost), (1.0 - 1e-7) * cost)
            gradient = np.float32(margin + np.log(inner / (cost - inner)))
            state[HIGH, lane] = max(state[HIGH, lane], gradient)
            state[LOW, lane] = min(state[LOW, lane], gradient)
            if abs(gradient) > 1e-3:
                new = np.float32(_logistic_dual(old, cost, square, margin - square * old))
                lanes.alpha[i, lane] = new
                state[STEP, lane] = (new - old) * y
                state[BIAS, lane] += bias * state[STEP, lane]


@tight
def _pass(local: Local, lanes: _Lanes, order: U32, diagonal: Any, settings: Settings) -> None:
    """Visit every row once, in `order`."""
    lanes.state[HIGH] = -np.inf
    lanes.state[LOW] = np.inf
    bias = np.float32(settings.bias)
    for i in order:
        begin, end = local.indptr[i], local.indptr[i + np.uint32(1)]
        for lane in range(WIDTH):
            lanes.state[MARGIN, lane] = bias * lanes.state[BIAS, lane]
        add_products(lanes.w, local.indices, local.values, begin, end, lanes.state)
        numbers = (diagonal[i, 0], diagonal[i, 1], bias)
        if settings.loss == 2:
            _step_logistic(lanes, i, numbers)
        else:
            box_step(lanes.alpha, lanes.side, i, lanes.state, numbers, settings.loss == 0)
        spread_row(lanes.w, local.indices, local.values, begin, end, lanes.state)


@kernel
def _diagonal(local: Local, bias: float) -> Any:
    """Per row: its squared length with the constant feature, and the part of features that no other row has."""
    made = np.zeros((len(local.indptr) - 1, 2), np.float32)
    for i in range(len(made)):
        shared, alone = bias * bias, 0.0
        for p in range(local.indptr[i], local.indptr[i + 1]):
            shared += local.values[p] * local.values[p]
        for p in range(local.alone_indptr[i], local.alone_indptr[i + 1]):
            alone += local.alone_values[p] * local.alone_values[p]
        made[i, 0], made[i, 1] = shared + alone, alone
    return made


@tight
def _collect(local: Local, lanes: _Lanes, lane: int, threshold: Any, room: Any) -> int:
    """Append the weights of a lane that reach the threshold to `room` and zero the lane; returns their number."""
    features, values = room
    found = 0
    for j in range(len(local.features)):
        weight = lanes.w[j, lane]
        lanes.w[j, lane] = 0.0
        if abs(weight) >= threshold and weight != 0.0:
            features[found], values[found] = local.features[j], weight
            found += 1
    for i in range(len(lanes.alpha)):
        dual = lanes.alpha[i, lane]
        if dual > 0.0:
            dual = np.copysign(dual, lanes.side[i, lane])
            for p in range(local.alone_indptr[i], local.alone_indptr[i + 1]):
                weight = dual * local.alone_values[p]
                if abs(weight) >= threshold and weight != 0.0:
                    features[found], values[found] = local.alone_features[p], weight
                    found += 1
    return found


@tight
def _kth_size(values: F32, bias: Any, heap: F32) -> Any:
    """The k-th largest |value|, the bias counted in, by a heap of k."""
    size, k = 0, len(heap)
    for p in range(len(values) + 1):
        value = abs(values[p]) if p < len(values) else abs(bias)
        if size < k:
            at = size
            size += 1
            while at > 0 and heap[(at - 1) >> 1] > value:
                heap[at] = heap[(at - 1) >> 1]
                at = (at - 1) >> 1
            heap[at] = value
        elif value > heap[0]:
            at, down = 0, 1
            while down < k:
                if down + 1 < k and heap[down + 1] < heap[down]:
                    down += 1
                if heap[down] >= value:
                    break
                heap[at] = heap[down]
                at, down = down, 2 * down + 1
            heap[at] = value
    return heap[0]


@tight
def _cap(features: U32, values: F32, bias: Any, spare: F32) -> tuple[int, Any]:
    """Keep the len(spare) largest weights, the bias among them; equal ones by lower id. Returns count and bias."""
    n, most = len(values), len(spare)
    if most == 0 or n + (bias != 0.0) <= most:
        return n, bias
    cut = _kth_size(values, bias, spare)
    above, equal = int(abs(bias) > cut), 0
    for p in range(n):
        above += abs(values[p]) > cut
        equal += abs(values[p]) == cut
    room = most - above  # for weights of exactly the cut; the bias, the last feature, comes behind them
    kept_bias = bias if abs(bias) > cut or (abs(bias) == cut and room > equal) else np.float32(0)
    last = np.int64(-1) if room > 0 else np.int64(-2)
    for _ in range(min(room, equal)):  # the room-th lowest feature among equals
        lowest = np.int64(1 << 40)
        for p in range(n):
            if abs(values[p]) == cut and last < np.int64(features[p]) < lowest:
                lowest = np.int64(features[p])
        last = lowest
    kept = 0
    for p in range(n):
        if abs(values[p]) > cut or (abs(values[p]) == cut and np.int64(features[p]) <= last):
            features[kept], values[kept] = features[p], values[p]
            kept += 1
    return kept, kept_bias


@kernel
def solve_group(X: Rows, problems: Problems, group: Group, settings: Settings, scratch: Any) -> Columns:
    """Weights of every problem of the group; `scratch` is one zero per feature and one per row, left zero."""
    counts, place = scratch
    rows, inside = group.rows.copy(), np.empty(len(group.rows), np.uint8)
    order = np.arange(len(rows)).astype(np.uint32)
    state = shuffle(order, scramble(np.uint64(group.seed)))
    for i in range(len(rows)):
        rows[i], inside[i] = group.rows[order[i]], group.inside[order[i]]
        place[rows[i]] = np.uint32(i + 1)
    local = gather(X, rows, counts)
    absent = _side(settings, 0.0)
    lanes = _new_lanes(len(rows), len(local.features), absent)
    diagonal = _diagonal(local, settings.bias)
    made = _run(local, lanes, diagonal, (problems, inside, place), (group.problems, order, state, settings))
    for row in rows:
        place[row] = np.uint32(0)
    return made


@kernel
def _run(local: Local, lanes: _Lanes, diagonal: Any, given: Any, task: Any) -> Columns:
    """Passes until every problem is done; a lane that is done takes the next problem at once."""
    wanted, order, state, settings = task
    n, absent, threshold = len(wanted), _side(settings, 0.0), np.float32(settings.threshold)
    counts, bias = np.zeros(n, np.uint32), np.zeros(n, np.float32)
    starts, spare = np.zeros(n, np.int64), np.empty(max(0, settings.max_nonzeros), np.float32)
    most = len(local.features) + len(local.alone_features)
    features, values, used = np.empty(max(most, 1), np.uint32), np.empty(max(most, 1), np.float32), 0
    holds, age = np.full(WIDTH, -1, np.int64), np.zeros(WIDTH, np.int64)
    following = 0
    for lane in range(min(WIDTH, n)):
        holds[lane], following = lane, lane + 1
        _enter(lanes, lane, wanted[lane], given, settings)
    live = min(WIDTH, n)
    while live > 0:
        state = shuffle(order, state)
        _pass(local, lanes, order, diagonal, settings)
        for lane in range(WIDTH):
            age[lane] += 1
            k = holds[lane]
            if k < 0 or (
                lanes.state[HIGH, lane] - lanes.state[LOW, lane] > settings.eps and age[lane] < settings.max_passes
            ):
                continue
            features, values = grown_u32(features, used + most), grown_f32(values, used + most)
            found = _collect(local, lanes, lane, threshold, (features[used:], values[used:]))
            kept_bias = lanes.state[BIAS, lane] if abs(lanes.state[BIAS, lane]) >= threshold else np.float32(0)
            end = used + found
            found, own_bias = _cap(features[used:end], values[used:end], kept_bias, spare)
            counts[k], bias[k], starts[k] = found, own_bias, used
            used += found
            lanes.state[BIAS, lane], age[lane], holds[lane] = 0.0, 0, -1
            if following < n:
                holds[lane] = following
                _enter(lanes, lane, wanted[following], given, settings)
                following += 1
            else:
                live -= 1
                _clear(lanes, lane, absent)
    return _in_order(counts, starts, features, values, bias)


@kernel
def _in_order(counts: U32, starts: Any, features: U32, values: F32, bias: F32) -> Columns:
    """Columns in the order of the problems, not in that of their ends."""
    total = 0
    for count in counts:
        total += count
    made = Columns(counts, np.empty(total, np.uint32), np.empty(total, np.float32), bias)
    at = 0
    for k in range(len(counts)):
        found = counts[k]
        made.features[at : at + found] = features[starts[k] : starts[k] + found]
        made.values[at : at + found] = values[starts[k] : starts[k] + found]
        at += found
    return made
