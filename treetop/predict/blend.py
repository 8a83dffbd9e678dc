"""Average the members' rankings into one; a label that a member did not return has score 0 there."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from treetop.core.errors import ConfigError, ModelError, did_you_mean
from treetop.core.types import Join, Ranking

Blend = Literal["average", "rank_average", "softmax_average"]
LEAST = 1e-6  # smallest weight relative to the largest: less would be lost in the rounding of scores
TINY = 1e-100  # smallest weight at all: divided among members, less would lose precision
KEEP = 100  # labels that each member returns at least, so that a label it leaves out rarely has a good score


def check_blend(blend: Blend, joins: Sequence[Join]) -> None:
    """Refuse unknown names, and averages of scores below 0, where a label left out would beat one that was returned."""
    if blend not in (known := get_args(Blend)):
        hint = did_you_mean(str(blend), known)
        raise ConfigError(f"blend: unknown value '{blend}'. Choose one of {', '.join(known)}.{hint}")
    for join in joins:
        if blend == "average" and (join.transform == "noop" or join.adds):
            raise ConfigError(
                f"blend: 'average' needs scores from 0 to 1, but a member's last level gives '{join.transform}'. "
                "Use 'rank_average' or 'softmax_average', or a transform such as 'sigmoid'."
            )


def check_weights(weights: Sequence[float], n: int, what: str = "members") -> tuple[float, ...]:
    """Weights as floats, one for each of `n`, or none for equal weights; refused if they make no average."""
    if isinstance(weights, (str, bytes)) or not isinstance(weights, Iterable):
        raise ConfigError(
            f"weights: {weights!r} is not a list of numbers. Give one for each of the {n} {what}, such as [4, 1]."
        )
    weights = list(weights)
    if len(weights) not in (0, n):
        raise ConfigError(f"weights: {len(weights)} for {n} {what}. Give one for each, or none for equal weights.")
    numbers = tuple(_number(weight) for weight in weights)
    for weight, value in zip(weights, numbers, strict=True):
        if not 0 <= value < math.inf:
            raise ConfigError(f"weights: {weight!r} is not a weight. Allowed: numbers of 0 or more.")
    if numbers and not any(numbers):
        raise ConfigError(f"weights: all {n} are 0. At least one must be above 0.")
    return numbers


def check_too_small(weights: Sequence[float]) -> None:
    """Refuse positive weights that are too small to change the average."""
    least = max(TINY, LEAST * max(weights, default=0.0))
    for weight in weights:
        if 0 < weight < least:
            raise ConfigError(
                f"weights: {weight!r} is too small next to {max(weights)!r} to count. Allowed: 0 (the model is left "
                f"out) and {least:g} or more."
            )


def _number(weight: object) -> float:
    """The weight as a float; NaN if it is not a number, infinite if it is too large."""
    try:
        return float(weight) if isinstance(weight, Real) and not isinstance(weight, bool) else math.nan
    except OverflowError:
        return math.inf


def proportions(weights: Sequence[float], n: int) -> list[float]:
    """Weights of `n` members divided by the largest; all 1 if none are given."""
    largest = max(weights, default=1.0)
    return [weight / largest for weight in weights] or [1.0] * n


def blended(parts: Sequence[Ranking], blend: Blend, k: int, weights: Sequence[float] = ()) -> Ranking:
    """The best `k` labels by the weighted average of the members' scores (no weights: the mean)."""
    if len(parts) == 1:
        return parts[0].top(k)
    n, weights = len(parts[0]), proportions(weights, len(parts))
    voters = [(part, weight) for part, weight in zip(parts, weights, strict=True) if weight > 0]
    rows = np.concatenate([np.repeat(np.arange(n), np.diff(part.indptr)) for part, _ in voters])
    ids = np.concatenate([part.ids for part, _ in voters])
    longest = np.max([np.diff(part.indptr) for part, _ in voters], axis=0)
    scores = np.concatenate([weight * _votes(part, blend, longest) for part, weight in voters]) / sum(weights)
    width = int(ids.max(initial=0)) + 1
    keys, place = np.unique(rows * width + ids, return_inverse=True)
    summed = np.bincount(place, weights=scores, minlength=len(keys)).astype(np.float32)
    indptr = np.searchsorted(keys, np.arange(n + 1, dtype=np.int64) * width)
    return Ranking.sorted(indptr, (keys % width).astype(np.int32), summed).top(k)


def addends(parts: Sequence[Ranking], blend: Blend, weights: Sequence[float], label: int) -> list[float]:
    """What each member adds to a label's average, for a single document; 0 if it did not return the label."""
    if len(parts) == 1:
        return [float(parts[0].score[parts[0].ids == label].sum())]
    weights = proportions(weights, len(parts))
    longest = np.max([np.diff(part.indptr) for part, weight in zip(parts, weights, strict=True) if weight > 0], axis=0)
    return [
        float(weight * _votes(part, blend, longest)[part.ids == label].sum() / sum(weights)) if weight > 0 else 0.0
        for part, weight in zip(parts, weights, strict=True)
    ]


def _votes(part: Ranking, blend: Blend, longest: NDArray[np.int64]) -> NDArray[np.float64]:
    """A member's score of each label on the scale of `blend`; `longest`: length of each document's longest list."""
    lengths = np.diff(part.indptr)
    if blend == "average":
        return part.score.astype(np.float64)
    if blend == "rank_average":  # rank r (from 1) scores longest - r + 1, independent of the other documents
        place = np.arange(len(part.ids)) - np.repeat(part.indptr[:-1], lengths)
        return np.asarray(np.repeat(longest, lengths) - place, np.float64)
    first = np.repeat(part.score[np.minimum(part.indptr[:-1], len(part.score) - 1)] if len(part.score) else [], lengths)
    exponentials = np.exp(part.score.astype(np.float64) - first)
    sums = np.add.reduceat(np.append(exponentials, 0.0), part.indptr[:-1]) if len(lengths) else exponentials
    return np.asarray(exponentials / np.repeat(sums, lengths))


def checked_scores(ranking: Ranking) -> Ranking:
    """The same ranking; refused if a score is not finite."""
    if not np.isfinite(ranking.score).all():
        raise ModelError(
            "a score is NaN or infinite: the model, or the precomputed features it was given, contain values that are "
            "not finite or too large. Check the model with `treetop verify` and the scale of the features."
        )
    return ranking
