"""A short probe: train on small samples, measure how the model grows, and correct the forecast."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from treetop.core.dataset import Dataset
from treetop.core.forecast import Forecast
from treetop.core.label_part import labels_part
from treetop.core.log import quiet
from treetop.core.store import Part
from treetop.model import Model

SAMPLE = 1000  # texts of the first training; two more have twice and four times as many
MARGIN = 1.1  # on what the samples promise


class _Seen(NamedTuple):
    weights: float
    seconds: float


def probed(fit: Callable[[Dataset], Model], dataset: Dataset, needs: Forecast) -> Forecast:
    """`needs` with the model's size, its memory and the time extrapolated from samples, except for small data."""
    n = len(dataset)
    if not needs.copies or n < 8 * SAMPLE:
        return needs
    order = np.random.default_rng(0).permutation(n)
    seen = [_train(fit, dataset.take(np.sort(order[: times * SAMPLE]))) for times in (1, 2, 4)]
    weights = seen[2].weights + _further([step.weights for step in seen], math.log2(n / (4 * SAMPLE)))
    model = MARGIN * weights + part_bytes(labels_part(dataset.labels, dataset.label_counts))
    return dataclasses.replace(needs.sized(model), time=seen[2].seconds * (n / (4 * SAMPLE)) ** 1.05)


def _further(sizes: list[float], doublings: float) -> float:
    """Growth after more doublings of the texts, each adding a constant ratio of the previous one."""
    first, second = sizes[1] - sizes[0], max(sizes[2] - sizes[1], 0.0)
    ratio = min(max(second / max(first, 1.0), 1.4), 2.1)
    return float(second * ratio * (ratio**doublings - 1.0) / (ratio - 1.0))


def _train(fit: Callable[[Dataset], Model], sample: Dataset) -> _Seen:
    started = time.monotonic()
    with quiet():
        model = fit(sample)
    seconds = time.monotonic() - started
    return _Seen(model_bytes(model), seconds)


def model_bytes(model: Model) -> float:
    """Bytes of features and levels, without labels."""
    parts = [level.rank.to_part() for member in model.members for level in member]
    parts += [features.to_part() for features in model.features.values()]
    return sum(map(part_bytes, parts))


def part_bytes(part: Part) -> float:
    """Bytes of a part's arrays and of all below it."""
    return sum(array.nbytes for array in part.arrays.values()) + sum(map(part_bytes, part.parts.values()))
