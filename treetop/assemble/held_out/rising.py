"""The share of hits as a function of a score that never falls: isotonic regression over bins of the score."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treetop.core.types import Floats

Doubles = NDArray[np.float64]
PRIOR = 1.0  # pairs at the mean rate that every bin is given, so that no rate is 0 or 1


def rising_rate(score: Floats, hit: Floats, weight: Floats, knots: int) -> tuple[Doubles, Doubles]:
    """(scores, rates), `knots` of each, both rising; half of the bins by all pairs, half by those that hit."""
    shares = np.linspace(0, 1, knots // 2)
    chosen = score[hit > 0] if (hit > 0).any() else score
    edges = np.unique(np.concatenate([np.quantile(score, shares), np.quantile(chosen, shares)])).astype(np.float64)
    bins = np.maximum(np.searchsorted(edges, score, side="right") - 1, 0)
    n, sums, hits = (
        np.bincount(bins, w, len(edges)).astype(np.float64) for w in (weight, weight * score, weight * hit)
    )
    mean = hits.sum() / max(n.sum(), 1e-9)
    rate = rising((hits + PRIOR * np.clip(mean, 1e-6, 1 - 1e-6)) / (n + PRIOR), n + PRIOR)
    x = np.maximum.accumulate(np.where(n > 0, sums / np.maximum(n, 1e-9), edges))
    padding = (0, knots - len(x))
    return np.pad(x, padding, mode="edge"), np.pad(rate, padding, mode="edge")


def rising(value: Doubles, weight: Doubles) -> Doubles:
    """The nearest values (weighted squares) that never fall: pool adjacent violators."""
    pools: list[tuple[float, float, int]] = []  # mean, weight, length
    for mean, total in zip(value.tolist(), weight.tolist(), strict=True):
        length = 1
        while pools and pools[-1][0] >= mean:
            before, w, n = pools.pop()
            mean, total, length = (before * w + mean * total) / (w + total), w + total, length + n
        pools.append((mean, total, length))
    return np.repeat([pool[0] for pool in pools], [pool[2] for pool in pools])
