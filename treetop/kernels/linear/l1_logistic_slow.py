"""Slow twin of `l1_logistic.py`: proximal gradient steps on dense rows, for as long as it takes."""

from __future__ import annotations

from typing import Any

import numpy as np


def objective(X: Any, side: Any, w: Any) -> float:
    """|w|_1 + sum_i c_i log(1 + exp(-y_i w.x_i))."""
    return float(np.abs(w).sum() + (np.abs(side) * np.logaddexp(0, -np.sign(side) * (X @ w))).sum())


def solve(X: Any, side: Any, steps: int = 20_000) -> Any:
    """(features,) weights by accelerated proximal gradient descent with a fixed step."""
    X, y, cost = np.asarray(X, np.float64), np.sign(side).astype(np.float64), np.abs(side).astype(np.float64)
    bound = 0.25 * np.linalg.norm(X.T * cost @ X, 2) if X.size else 0.0
    step = 1.0 / max(bound, 1e-12)
    w = last = np.zeros(X.shape[1])
    for t in range(steps):
        at = w + t / (t + 3.0) * (w - last)
        gradient = -(cost * y / (1.0 + np.exp(y * (X @ at)))) @ X
        moved = at - step * gradient
        last, w = w, np.sign(moved) * np.maximum(np.abs(moved) - step, 0.0)
    return w
