"""L1-regularised logistic regression: min |w|_1 + sum_i c_i log(1 + exp(-y_i w.x_i)), by newGLMNET (JMLR 2012).

Each round models the loss by a parabola at w, minimises that one coordinate at a time, and goes along the direction so
found as far as the objective falls. So exponentials are needed once per row and round, not once per value. Features
whose weight stays at zero are set aside, as in LIBLINEAR, until the end. Twin: `l1_logistic_slow.py`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treetop.kernels.runtime.compile import kernel, tight
from treetop.kernels.sparse import F32, U32

RIDGE = 1e-12  # added to every second derivative, so that none is zero
FALL = 0.01  # share of the promised decrease that a step must reach
FARTHEST = 10.0  # that one coordinate moves at once


class Columns(NamedTuple):
    """X by columns: `rows[ptr[j] : ptr[j + 1]]` have feature j."""

    ptr: U32
    rows: U32
    values: F32


class Rules(NamedTuple):
    """When to stop: share of the first violation that may remain, and most rounds, passes and halvings."""

    eps: float = 0.01
    rounds: int = 50
    passes: int = 100
    halvings: int = 20


@tight
def violation(gradient: float, w: float) -> float:
    """By how much a coordinate misses its optimality condition."""
    if w > 0.0:
        return abs(gradient + 1.0)
    if w < 0.0:
        return abs(gradient - 1.0)
    return max(0.0, -(gradient + 1.0), gradient - 1.0)


@tight
def _newton_step(gradient: float, curvature: float, w: float) -> float:
    """The move of one coordinate that minimises the parabola plus |w|."""
    if gradient + 1.0 < curvature * w:
        step = -(gradient + 1.0) / curvature
    elif gradient - 1.0 > curvature * w:
        step = -(gradient - 1.0) / curvature
    else:
        step = -w
    return min(max(step, -FARTHEST), FARTHEST)


@tight
def _losses(margin: Any, side: F32, slope: Any, bend: Any) -> float:
    """Sum of all losses; writes each row's first and second derivative by its margin."""
    total = 0.0
    for i in range(len(margin)):
        cost, y = abs(np.float64(side[i])), 1.0 if side[i] > 0 else -1.0
        small = np.exp(-abs(margin[i]))
        total += cost * (np.log1p(small) + max(0.0, -y * margin[i]))
        positive = 1.0 / (1.0 + small) if margin[i] >= 0 else small / (1.0 + small)  # P(y = 1)
        slope[i] = cost * (positive - (1.0 if y > 0 else 0.0))
        bend[i] = cost * small / ((1.0 + small) * (1.0 + small))
    return total


@tight
def _survey(X: Columns, w: Any, state: Any, active: U32, n: int, bar: float) -> Any:
    """(features left, sum and largest of their violations): gradients and curvatures; settled features go behind."""
    slope, bend, gradient, curvature = state
    total, largest, k = 0.0, 0.0, 0
    while k < n:
        j = active[k]
        g, h = 0.0, RIDGE
        for p in range(X.ptr[j], X.ptr[j + np.uint32(1)]):
            i, x = X.rows[p], np.float64(X.values[p])
            g += x * slope[i]
            h += x * x * bend[i]
        gradient[j], curvature[j] = g, h
        if w[j] == 0.0 and abs(g) < 1.0 - bar:
            n -= 1
            active[k], active[n] = active[n], j
            continue
        here = violation(g, w[j])
        total, largest, k = total + here, max(largest, here), k + 1
    return n, total, largest


@tight
def _pass(X: Columns, w: Any, moved: Any, state: Any, active: U32, n: int, bar: float) -> Any:
    """One pass over the coordinates of the parabola; (features left, sum and largest of their violations)."""
    bend, gradient, curvature, shift = state
    total, largest, k = 0.0, 0.0, 0
    while k < n:
        j = active[k]
        g = gradient[j] + (moved[j] - w[j]) * RIDGE
        for p in range(X.ptr[j], X.ptr[j + np.uint32(1)]):
            i = X.rows[p]
            g += np.float64(X.values[p]) * bend[i] * shift[i]
        if moved[j] == 0.0 and abs(g) < 1.0 - bar:
            n -= 1
            active[k], active[n] = active[n], j
            continue
        here = violation(g, moved[j])
        total, largest, k = total + here, max(largest, here), k + 1
        step = _newton_step(g, curvature[j], moved[j])
        if abs(step) < 1e-12:
            continue
        moved[j] += step
        for p in range(X.ptr[j], X.ptr[j + np.uint32(1)]):
            shift[X.rows[p]] += step * np.float64(X.values[p])
    return n, total, largest


@tight
def _direction(X: Columns, w: Any, moved: Any, state: Any, active: U32, n: int, goal: float, passes: int) -> int:
    """Minimise the parabola over the active features; returns the passes it took."""
    left, bar = n, np.inf
    for done in range(passes):
        left, total, largest = _pass(X, w, moved, state, active, left, bar)
        bar = largest / len(state[0])
        if total <= goal:
            if left == n:
                return done + 1
            left, bar = n, np.inf
    return passes


@tight
def _line_search(margin: Any, w: Any, moved: Any, state: Any, before: float, halvings: int) -> Any:
    """Go along the direction as far as the objective falls enough; (loss there, whether it does at all)."""
    side, slope, bend, gradient, shift = state
    promised, old, new = 0.0, 0.0, 0.0
    for j in range(len(w)):
        promised += gradient[j] * (moved[j] - w[j]) + abs(moved[j]) - abs(w[j])
        old, new = old + abs(w[j]), new + abs(moved[j])
    for i in range(len(margin)):
        margin[i] += shift[i]
    for _ in range(halvings):
        loss = _losses(margin, side, slope, bend)
        if loss + new - before - old <= FALL * promised:
            return loss, True
        promised, new = 0.5 * promised, 0.0
        for j in range(len(w)):
            moved[j] = 0.5 * (moved[j] + w[j])
            new += abs(moved[j])
        for i in range(len(margin)):
            shift[i] *= 0.5
            margin[i] -= shift[i]
    for i in range(len(margin)):
        margin[i] -= shift[i]
    return _losses(margin, side, slope, bend), False


@kernel
def solve(X: Columns, side: F32, rules: Rules) -> Any:
    """(features,) weights; `side` is the cost of each row with the sign of its class."""
    n, d = len(side), len(X.ptr) - 1
    w, moved, margin = np.zeros(d), np.zeros(d), np.zeros(n)
    slope, bend, shift = np.empty(n), np.empty(n), np.zeros(n)
    gradient, curvature = np.zeros(d), np.zeros(d)
    active = np.arange(d).astype(np.uint32)
    loss, left, bar, inner = _losses(margin, side, slope, bend), d, np.inf, 1.0
    first = 0.0
    for done in range(rules.rounds):
        left, total, largest = _survey(X, w, (slope, bend, gradient, curvature), active, left, bar)
        if done == 0:
            first = total
        if total <= rules.eps * first:
            if left == d:
                break
            left, bar = d, np.inf  # all is well here; look at what was set aside
            continue
        bar = largest / n
        moved[:], shift[:] = w, 0.0
        state = bend, gradient, curvature, shift
        took = _direction(X, w, moved, state, active, left, inner * first, rules.passes)
        loss, fell = _line_search(margin, w, moved, (side, slope, bend, gradient, shift), loss, rules.halvings)
        if fell:
            w[:] = moved
            inner *= 0.25 if took == 1 else 1.0
        elif left == d:
            break
        else:
            left, bar = d, np.inf
    return w
