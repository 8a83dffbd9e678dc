"""Projection-weighted canonical correlation (Morcos et al. 2018): how alike two representations of the same rows are.

Linear maps of either side change nothing. Only the main directions of each side count, so that directions without
variance do not correlate by chance.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

VARIANCE = 0.99  # share of each side's variance that its main directions must explain


def pwcca(X: NDArray[Any], Y: NDArray[Any], variance: float = VARIANCE) -> float:
    """In [0, 1]: the mean canonical correlation, weighted by how much of `X` each canonical variate accounts for."""
    X = np.asarray(X, np.float64) - np.mean(X, 0, dtype=np.float64)
    left, right = _directions(X, variance), _directions(np.asarray(Y, np.float64), variance)
    if not left.shape[1] or not right.shape[1]:
        return 0.0
    turn, correlations, _ = np.linalg.svd(left.T @ right, full_matrices=False)
    weights = np.abs((left @ turn).T @ X).sum(1)
    return float(np.clip(weights @ np.clip(correlations, 0, 1) / weights.sum(), 0, 1))


def _directions(X: NDArray[Any], variance: float) -> NDArray[np.float64]:
    """(rows, kept) orthonormal main directions of centred columns."""
    U, s, _ = np.linalg.svd(X - X.mean(0), full_matrices=False)
    share = np.cumsum(s**2) / max(float((s**2).sum()), 1e-300)
    kept = min(int(np.searchsorted(share, variance - 1e-12)) + 1, int((s > 1e-9 * max(float(s[0]), 1e-300)).sum()))
    return np.ascontiguousarray(U[:, :kept])
