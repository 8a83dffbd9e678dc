"""Learning curves: the score on all documents, extrapolated from scores on samples.

Two curves pass through the score on the largest sample. In the first, the error falls as a power of the number of
documents, so that gains shrink from the start. In the second, the log odds of a hit are linear in the logarithm of that
number, at SHRUNK times the measured slope, so that low scores first rise faster and faster, as they do with many labels
and few texts. On data of both kinds the true score lay between the two (`docs/choosing.md`): the estimate is their
mean, and its uncertainty half their difference. A recipe that was tried on one sample only is assumed to rise, in log
odds, BORROWED times as much as one that was tried on more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

SHRUNK = 0.8  # factor of the log odds' slope
LAST = 3  # the slope is fitted to so many of the largest samples
BORROWED = 0.5  # factor of another recipe's rise
EDGE = 1e-3  # scores are kept this far from 0 and 1


class Expected(NamedTuple):
    """A score expected on all documents, and its uncertainty."""

    value: float
    spread: float


def extrapolated(sizes: Sequence[int], scores: Sequence[float], n: int, ceiling: float = 1.0) -> Expected:
    """The score with `n` documents, from scores of ascending sample sizes; `ceiling` is the highest possible score."""
    top = max(ceiling, EDGE)
    last = scores[-1]
    if n <= sizes[-1] or len(sizes) < 2:
        return Expected(last, 0.0)
    p = _clipped(np.asarray(scores[-LAST:], np.float64) / top)
    x = np.log(np.asarray(sizes[-LAST:], np.float64))
    log_growth = math.log(n) - float(x[-1])
    odds = np.log(p / (1.0 - p))
    fast = float(odds[-1]) + SHRUNK * max(_slope(x, odds), 0.0) * log_growth
    slow = float(np.log(1.0 - p[-1])) + min(_slope(x, np.log(1.0 - p)), 0.0) * log_growth
    ends = sorted((top / (1.0 + math.exp(-fast)), top * (1.0 - math.exp(slow))))
    low, high = (max(last, end) for end in ends)
    return Expected((low + high) / 2.0, (high - low) / 2.0)


def borrowed(score: float, before: float, after: float, ceiling: float = 1.0) -> Expected:
    """The score on all documents, from one sample: another recipe rises from `before` on it to an expected `after`."""
    top = max(ceiling, EDGE)
    here, low, high = _clipped(np.array([score, before, after], np.float64) / top)
    rise = BORROWED * max(math.log(high / (1.0 - high)) - math.log(low / (1.0 - low)), 0.0)
    value = max(score, top / (1.0 + math.exp(-math.log(here / (1.0 - here)) - rise)))
    return Expected(value, value - score)


def _clipped(p: np.ndarray) -> np.ndarray:
    return np.clip(p, EDGE, 1.0 - EDGE)


def _slope(x: np.ndarray, y: np.ndarray) -> float:
    """Slope of the least-squares line."""
    centred = x - x.mean()
    return float((centred * y).sum() / max(float((centred**2).sum()), 1e-12))
