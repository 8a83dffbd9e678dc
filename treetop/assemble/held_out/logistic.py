"""Weights of a logistic fusion, fitted by Newton's method; those of the sources' scores are non-negative."""

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
SLOPE = (
    1e-2  # log odds added from the lowest to the highest score, so that scores with equal hit rates keep their order
)
Doubles = NDArray[np.float64]


def learn_logistic(judged: Judged, counts: Ints) -> Logistic:
    """First map each source's score to log odds, then fit the weights of the sources."""
    knots = log_odds_maps(judged)
    X = inputs(judged.pairs, knots, counts).astype(np.float64)
    bounded = np.arange(X.shape[1]) < knots.shape[1]
    return Logistic(knots, non_negative(X, judged.hit, judged.weight, bounded).astype(np.float32))


def log_odds(score: Floats, hit: Floats, weight: Floats) -> Doubles:
    """(2, KNOTS) scores from the lowest to the highest, and the log odds of a hit at each; both ascending."""
    x, rate = rising_rate(score, hit, weight, KNOTS)
    x[0], x[-1] = score.min(initial=x[0]), score.max(initial=x[-1])
    slope = SLOPE * (x - x[0]) / max(x[-1] - x[0], 1e-30)
    return np.stack([x, np.log(rate / (1.0 - rate)) + slope])


def alone(judged: Judged, source: int) -> Logistic:
    """A fusion that uses one source alone: its ranking, its score as log odds."""
    knots = log_odds_maps(judged)
    weight = np.zeros(2 * knots.shape[1] + 2, np.float32)
    weight[[source, knots.shape[1] + source]] = 1.0, SLOPE  # ranks a label it did not return below all that it returned
    return Logistic(knots, weight)


def log_odds_maps(judged: Judged) -> Floats:
    """(2, sources, KNOTS) maps from each source's score to log odds."""
    columns = judged.pairs.score.T
    return np.stack([log_odds(score, judged.hit, judged.weight) for score in columns], axis=1).astype(np.float32)


def non_negative(X: Doubles, y: Floats, weight: Floats, bounded: NDArray[np.bool_], steps: int = 50) -> Doubles:
    """Weights that minimise the log loss with a small ridge penalty; those marked in `bounded` are at least 0."""
    w = np.zeros(X.shape[1])
    for _ in range(steps):
        p = 1.0 / (1.0 + np.exp(-np.clip(X @ w, -30, 30)))
        gradient = X.T @ (weight * (p - y)) + RIDGE * w
        H = (X * (weight * np.maximum(p * (1 - p), 1e-6))[:, None]).T @ X + RIDGE * np.eye(len(w))
        free = ~(bounded & (w <= 0) & (gradient > 0))  # all but those at the bound whose step would cross it
        step = np.zeros_like(w)
        step[free] = np.linalg.solve(H[np.ix_(free, free)], gradient[free])
        updated = np.where(bounded, np.maximum(w - step, 0.0), w - step)
        change, w = float(np.abs(updated - w).max()), updated
        if change < 1e-6:
            break
    return w
