"""Scores at full size, from those of samples: a learning curve.

Two curves pass through the largest sample. In one the error falls as a power of the number of documents: the score
slows down at once. In the other the log odds of a hit rise with the logarithm of that number, SHRUNK: a low score first
gains speed, as it does where labels are many and texts few. The truth was between them on data of both kinds
(`docs/choosing.md`), so the estimate is their mean, and half of what lies between them is its uncertainty. A recipe
that was tried on one sample only is taken to rise BORROWED times as fast, in log odds, as one that was tried on more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

SHRUNK = 0.8  # of the slope of the log odds
LAST = 3  # samples whose slope is followed
BORROWED = 0.5  # of another recipe's rise
EDGE = 1e-3  # scores are kept this far from 0 and 1


class Expected(NamedTuple):
    """A score at full size, and how far off it may be."""

    value: float
    spread: float


def extrapolated(sizes: Sequence[int], scores: Sequence[float], n: int, ceiling: float = 1.0) -> Expected:
    """The score of `n` documents, from scores of rising sizes; `ceiling` is the highest a score can be."""
    top = max(ceiling, EDGE)
    last = scores[-1]
    if n <= sizes[-1] or len(sizes) < 2:
        return Expected(last, 0.0)
    p = _inside(np.asarray(scores[-LAST:], np.float64) / top)
    x = np.log(np.asarray(sizes[-LAST:], np.float64))
    further = math.log(n) - float(x[-1])
    odds = np.log(p / (1.0 - p))
    fast = float(odds[-1]) + SHRUNK * max(_slope(x, odds), 0.0) * further
    slow = float(np.log(1.0 - p[-1])) + min(_slope(x, np.log(1.0 - p)), 0.0) * further
    ends = sorted((top / (1.0 + math.exp(-fast)), top * (1.0 - math.exp(slow))))
    low, high = (max(last, end) for end in ends)
    return Expected((low + high) / 2.0, (high - low) / 2.0)


def borrowed(score: float, before: float, after: float, ceiling: float = 1.0) -> Expected:
    """The score at full size from one sample, on which another recipe reached `before`, expected to reach `after`."""
    top = max(ceiling, EDGE)
    here, low, high = _inside(np.array([score, before, after], np.float64) / top)
    rise = BORROWED * max(math.log(high / (1.0 - high)) - math.log(low / (1.0 - low)), 0.0)
    value = max(score, top / (1.0 + math.exp(-math.log(here / (1.0 - here)) - rise)))
    return Expected(value, value - score)


def _inside(p: np.ndarray) -> np.ndarray:
    return np.clip(p, EDGE, 1.0 - EDGE)


def _slope(x: np.ndarray, y: np.ndarray) -> float:
    """Of the straight line with least squares."""
    centred = x - x.mean()
    return float((centred * y).sum() / max(float((centred**2).sum()), 1e-12))
