"""Newton steps by conjugate gradients for one L2-regularised squared-hinge problem over sparse and dense columns.

Minimises 0.5 sum_j s_j w_j^2 + sum_i c_i max(0, 1 - y_i m_i)^2 with m = X w + D v + b. Only rows with slack enter the
gradient and the (generalised) Hessian, so a good start makes every step cheap. The rules are those of trust-free
Newton solvers for linear machines: a blended diagonal preconditioner, a loose inner stop and a halving line search.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treetop.kernels.runtime.compile import kernel
from treetop.kernels.sparse import F32, U32, U64


class Design(NamedTuple):
    """Rows of a problem: sparse columns, then dense ones; a weight vector is [sparse, dense, bias]."""

    indptr: U64
    indices: U32
    values: F32
    dense: Any  # (n_rows, n_dense) float32; no columns where nothing is dense


class Penalty(NamedTuple):
    """Scale of the L2 penalty on each kind of weight; 0 for the bias leaves it free."""

    sparse: float = 1.0
    dense: float = 1.0
    bias: float = 0.0


class Rules(NamedTuple):
    """When and how steps are taken."""

    max_steps: int = 1000
    blend: float = 0.01  # of the Hessian's diagonal in the preconditioner
    inner: float = 0.5  # loosest stop of the conjugate gradients
    armijo: float = 0.01
    halvings: int = 20


class Outcome(NamedTuple):
    """How a solve ended: objective, norm of the gradient, steps, and whether the line search failed."""

    objective: float
    gradient: float
    steps: int
    failed: bool


@kernel
def dot(a: Any, b: Any) -> float:
    """Inner product with four sums; no BLAS, whose bits depend on its threads."""
    n = len(a) // 4 * 4
    one, two, three, four = 0.0, 0.0, 0.0, 0.0
    for j in range(0, n, 4):
        one += a[j] * b[j]
        two += a[j + 1] * b[j + 1]
        three += a[j + 2] * b[j + 2]
        four += a[j + 3] * b[j + 3]
    for j in range(n, len(a)):
        one += a[j] * b[j]
    return (one + two) + (three + four)


@kernel
def multiply(design: Design, w: Any, out: Any) -> None:
    """out[i] = margin of row i."""
    n_dense = design.dense.shape[1]
    n_sparse, bias = len(w) - 1 - n_dense, w[len(w) - 1]
    for i in range(len(out)):
        total = bias
        for p in range(design.indptr[i], design.indptr[i + 1]):
            total += w[design.indices[p]] * design.values[p]
        for j in range(n_dense):
            total += w[n_sparse + j] * design.dense[i, j]
        out[i] = total


@kernel
def _scales(penalty: Penalty, size: int, n_dense: int) -> Any:
    scales = np.full(size, penalty.sparse)
    scales[size - 1 - n_dense : size - 1] = penalty.dense
    scales[size - 1] = penalty.bias
    return scales


@kernel
def _value(scales: Any, w: Any, side: Any, margin: Any) -> float:
    total = 0.0
    for j in range(len(w)):
        total += 0.5 * scales[j] * w[j] * w[j]
    return total + _loss(side, margin, margin, 0.0)


@kernel
def _loss(side: Any, margin: Any, along: Any, step: float) -> float:
    """Summed loss at margin + step * along."""
    total = 0.0
    for i in range(len(side)):
        here = margin[i] + step * along[i]
        slack = 1.0 - here if side[i] > 0.0 else 1.0 + here
        if slack > 0.0:
            total += abs(side[i]) * slack * slack
    return total


@kernel
def _gradient(design: Design, side: Any, margin: Any, active: U32, made: Any) -> int:
    """Add the losses' gradient and Hessian diagonal to `made` in one sweep; lists rows with slack, returns how many."""
    gradient, diagonal = made
    n_dense, last = design.dense.shape[1], len(gradient) - 1
    n_sparse, found = last - n_dense, 0
    for i in range(len(side)):
        slack = 1.0 - margin[i] if side[i] > 0.0 else 1.0 + margin[i]
        if slack <= 0.0 or side[i] == 0.0:
            continue
        active[found] = np.uint32(i)
        found += 1
        pull, curve = -2.0 * side[i] * slack, 2.0 * abs(side[i])
        for p in range(design.indptr[i], design.indptr[i + 1]):
            j, x = design.indices[p], design.values[p]
            gradient[j] += pull * x
            diagonal[j] += curve * x * x
        for j in range(n_dense):
            x = design.dense[i, j]
            gradient[n_sparse + j] += pull * x
            diagonal[n_sparse + j] += curve * x * x
        gradient[last] += pull
        diagonal[last] += curve
    return found


@kernel
def _curvature(design: Design, side: Any, active: U32, v: Any, out: Any) -> None:
    """Add the losses' Hessian times v to `out`."""
    n_dense, last = design.dense.shape[1], len(v) - 1
    n_sparse = last - n_dense
    for i in active:
        begin, end = design.indptr[i], design.indptr[i + np.uint32(1)]
        total = v[last]
        for p in range(begin, end):
            total += v[design.indices[p]] * design.values[p]
        for j in range(n_dense):
            total += v[n_sparse + j] * design.dense[i, j]
        total *= 2.0 * abs(side[i])
        for p in range(begin, end):
            out[design.indices[p]] += total * design.values[p]
        for j in range(n_dense):
            out[n_sparse + j] += total * design.dense[i, j]
        out[last] += total


@kernel
def _direction(design: Design, side: Any, active: U32, given: Any, rules: Rules) -> Any:
    """An approximate solution d of H d = -gradient by preconditioned conjugate gradients from zero."""
    gradient, diagonal, scales = given
    size = len(gradient)
    direction, residual, shape = np.zeros(size), -gradient, 1.0 - rules.blend + rules.blend * diagonal
    look = residual / shape
    bent, slope, model = np.empty(size), dot(residual, look), 0.0
    tolerance = min(rules.inner, np.sqrt(np.sqrt(slope)))
    for k in range(1, max(size, 5) + 1):
        for j in range(size):
            bent[j] = scales[j] * look[j]
        _curvature(design, side, active, look, bent)
        curve = dot(look, bent)
        if curve < 1e-16:
            break
        alpha, rise = slope / curve, 0.0
        for j in range(size):
            direction[j] += alpha * look[j]
            residual[j] -= alpha * bent[j]
            rise += direction[j] * (residual[j] - gradient[j])
        better = -0.5 * rise  # the quadratic model at d, below zero
        if better > model or k * (better - model) >= tolerance * better:
            break
        model, fresh = better, 0.0
        for j in range(size):
            fresh += residual[j] * residual[j] / shape[j]
        for j in range(size):
            look[j] = residual[j] / shape[j] + fresh / slope * look[j]
        slope = fresh
    return direction


@kernel
def newton(design: Design, side: Any, w: Any, penalty: Penalty, stop: Any) -> Outcome:
    """Move `w` to the minimum. The sign of a row's `side` is its target, the size its cost (0: absent).

    `stop` = (norm of the gradient to reach, `Rules`).
    """
    tolerance, rules = stop
    n, size = len(side), len(w)
    scales = _scales(penalty, size, design.dense.shape[1])
    margin, along, active = np.empty(n), np.empty(n), np.empty(n, np.uint32)
    gradient, diagonal = np.empty(size), np.empty(size)
    multiply(design, w, margin)
    value, norm = _value(scales, w, side, margin), 0.0
    for step in range(rules.max_steps + 1):
        gradient[:], diagonal[:] = scales * w, scales
        found = _gradient(design, side, margin, active, (gradient, diagonal))
        norm = np.sqrt(dot(gradient, gradient))
        if norm <= tolerance or step == rules.max_steps:
            for j in range(size - 1):
                if diagonal[j] == scales[j]:  # no row holds this weight: at the minimum it is zero
                    w[j] = 0.0
            return Outcome(value, norm, step, False)
        d = _direction(design, side, active[:found], (gradient, diagonal, scales), rules)
        multiply(design, d, along)
        fall, across, own = dot(gradient, d), 0.0, 0.0
        for j in range(size):
            across += scales[j] * w[j] * d[j]
            own += 0.5 * scales[j] * d[j] * d[j]
        base, length, fresh = value - _loss(side, margin, along, 0.0), 1.0, 0.0
        for _ in range(rules.halvings):
            fresh = base + length * across + length * length * own + _loss(side, margin, along, length)
            if fresh - value <= rules.armijo * length * fall:
                break
            length *= 0.5
        else:
            return Outcome(value, norm, step, True)
        w += length * d
        margin += length * along
        reduction, value = value - fresh, fresh
        if reduction <= 1e-12 * abs(value):
            return Outcome(value, norm, step + 1, False)
    return Outcome(value, norm, rules.max_steps, False)
