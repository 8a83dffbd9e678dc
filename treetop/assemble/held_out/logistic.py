"""Weights of a logistic fusion, by Newton's method with non-negative weights of the sources' scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treetop.assemble.held_out.judged import Judged
from treetop.assemble.held_out.rising import rising_rate
from treetop.core.dataset import Ints
from treetop.core.types import Floats
from treetop.predict.fuse.logistic import Logistic, inputs

KNOTS = 40
RIDGE = 1e-3
Doubles = NDArray[np.float64]


def learn_logistic(judged: Judged, counts: Ints) -> Logistic:
    """The log odds of each source's score first, then what each of them counts."""
    score = judged.pairs.score
    maps = [log_odds(score[:, s], judged.hit, judged.weight) for s in range(score.shape[1])]
    knots: Floats = np.stack(maps, axis=1).astype(np.float32)
    X = inputs(judged.pairs, knots, counts).astype(np.float64)
    signed = np.arange(X.shape[1]) < score.shape[1]
    return Logistic(knots, non_negative(X, judged.hit, judged.weight, signed).astype(np.float32))


def log_odds(score: Floats, hit: Floats, weight: Floats) -> Doubles:
    """(2, KNOTS) scores and the log odds of a hit there, both rising."""
    x, rate = rising_rate(score, hit, weight, KNOTS)
    return np.stack([x, np.log(rate / (1.0 - rate))])


def non_negative(X: Doubles, y: Floats, weight: Floats, signed: NDArray[np.bool_], steps: int = 50) -> Doubles:
    """Logistic weights with least log loss, those marked in `signed` not below 0."""
    w = np.zeros(X.shape[1])
    for _ in range(steps):
        p = 1.0 / (1.0 + np.exp(-np.clip(X @ w, -30, 30)))
        gradient = X.T @ (weight * (p - y)) + RIDGE * w
        H = (X * (weight * np.maximum(p * (1 - p), 1e-6))[:, None]).T @ X + RIDGE * np.eye(len(w))
        free = ~(signed & (w <= 0) & (gradient > 0))  # at the bound and pushed beyond it
        step = np.zeros_like(w)
        step[free] = np.linalg.solve(H[np.ix_(free, free)], gradient[free])
        fresh = np.where(signed, np.maximum(w - step, 0.0), w - step)
        moved, w = float(np.abs(fresh - w).max()), fresh
        if moved < 1e-6:
            break
    return w
