"""The slow twin of `refine.py`: one function at a time, in the primal."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import optimize

from treetop.kernels.linear.descent import HINGE, LOGISTIC, Settings
from treetop.kernels.sparse import F32

ROUND = 1e-3  # the corner of the hinge is rounded this far


def refine(X: Any, w: F32, bias: float, y: F32, factor: float, settings: Settings) -> F32:
    """The weights of one function after dense rows `X` with targets `y` (-1 or 1) have pulled it; nothing is pruned."""
    cost = factor * np.where(y > 0, settings.cost_positive, settings.cost_negative)
    rows, start = X.astype(np.float64), w.astype(np.float64)

    def objective(v: Any) -> tuple[float, Any]:
        value, slope = _loss(y * (rows @ v + bias), settings.loss)
        return 0.5 * float((v - start) @ (v - start)) + float(cost @ value), v - start + rows.T @ (cost * y * slope)

    found = optimize.minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 10_000, "gtol": 1e-9})
    return found.x.astype(np.float32)  # type: ignore[no-any-return]


def _loss(margin: Any, kind: int) -> tuple[Any, Any]:
    """(loss, its derivative) at margins that should be positive."""
    if kind == LOGISTIC:
        return np.logaddexp(0.0, -margin), -1.0 / (1.0 + np.exp(np.clip(margin, -500, 500)))
    short = np.maximum(1.0 - margin, 0.0)
    if kind != HINGE:
        return short**2, -2.0 * short
    straight = short > ROUND
    value = np.where(straight, short - ROUND / 2, short**2 / (2 * ROUND))
    return value, np.where(straight, -1.0, -short / ROUND)
