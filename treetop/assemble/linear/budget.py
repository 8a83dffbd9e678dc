"""Fit linear members into a byte budget: lower precision first, then fewer weights; the cost is measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from treetop.assemble.linear.tree import LinearConfig
from treetop.core.dataset import Dataset
from treetop.core.errors import ResourceError
from treetop.core.forecast import size
from treetop.core.log import logger
from treetop.core.types import Level
from treetop.evaluate.match import hits
from treetop.kernels.tree import chunks
from treetop.predict.beam import descend
from treetop.predict.blend import Blend, blended
from treetop.rank.linear import Linear

Member = list[Level]
Train = Callable[[LinearConfig, str], list[Member]]  # settings and a name for the stages
Storage = Literal["float32", "float16", "int8"]
TRIES = 4
WIDTHS = {"float32": 4.0, "float16": 2.0, "int8": 1.0}  # bytes of a weight
PLACE = 3.6  # index bytes per weight, with its share of rows and buckets


class HoldOut(NamedTuple):
    """HoldOut-out training documents on which the cost of shrinking is measured, and how to train on the others."""

    train: Train
    views: dict[str, Any]
    dataset: Dataset
    blend: Blend


def fit_within(train: Train, linear: LinearConfig, holdout: HoldOut, *, limit: float, fixed: float) -> list[Member]:
    """Members whose weights and everything else (`fixed` bytes) stay under `limit` bytes, or a refusal with numbers.

    They are trained on all texts; what shrinking costs is measured by members trained without the held-out ones.
    """
    members = train(linear, "member")
    if fixed + weigh(members) <= limit:
        return members
    best, config = members, linear
    for storage in _narrower(linear.storage):
        config = dataclasses.replace(linear, storage=storage)
        best = [[_stored_as(level, storage) for level in member] for member in members]
        if fixed + weigh(best) <= limit:
            break
    for attempt in range(TRIES):
        if fixed + weigh(best) <= limit:
            break
        config = _pruned(config, best, (limit - fixed) * (0.95 - 0.1 * attempt))
        best = train(config, f"budget-{attempt}")
    if (total := fixed + weigh(best)) > limit:
        raise ResourceError(
            f"model: {size(limit)} allowed, but {size(total)} is the smallest possible ({size(fixed)} of it labels and "
            "features). Raise --budget model, or use fewer features (tfidf.max_features, tfidf.min_df)."
        )
    logger.info(
        "budget: %s instead of %s (weights as %s, dropped below %.3g); %s",
        size(total),
        size(fixed + weigh(members)),
        config.storage,
        config.threshold,
        _cost(holdout, holdout.train(config, "held-out-budget"), holdout.train(linear, "held-out")),
    )
    return best


def capped(linear: LinearConfig, holdout: HoldOut, *, limit: float, functions: int) -> LinearConfig:
    """Settings that keep all weights of so many functions below `limit` bytes while they are trained."""
    most = int(limit / (functions * (WIDTHS[linear.storage] + PLACE)))
    if most < 1:
        raise ResourceError(f"memory: no room for the weights of {functions:,} functions. Raise --budget memory.")
    if linear.max_nonzeros:
        most = min(most, linear.max_nonzeros)
    fewer = dataclasses.replace(linear, max_nonzeros=most)
    logger.info(
        "budget: at most %d weights for each function; %s",
        most,
        _cost(holdout, holdout.train(fewer, "sample-capped"), holdout.train(linear, "sample")),
    )
    return fewer


def weigh(members: Sequence[Sequence[Level]]) -> float:
    """Bytes of all weights."""
    return float(sum(array.nbytes for member in members for level in member for array in _linear(level).weights))


def _linear(level: Level) -> Linear:
    return cast(Linear, level.rank)


def _narrower(storage: Storage) -> list[Storage]:
    order: list[Storage] = ["float32", "float16", "int8"]
    return order[order.index(storage) + 1 :]


def _stored_as(level: Level, storage: str) -> Level:
    rank = _linear(level)
    return dataclasses.replace(level, rank=Linear(chunks.stored_as(rank.weights, storage), rank.n_features))


def _pruned(config: LinearConfig, members: Sequence[Sequence[Level]], room: float) -> LinearConfig:
    """Settings with a threshold that leaves about as many weights as there is room for."""
    sizes = [_sizes(_linear(level)) for member in members for level in member]
    weights = np.concatenate(sizes)
    keep = int(len(weights) * max(room, 0.0) / weigh(members))
    if keep < 1:
        raise ResourceError(f"model: no room for weights ({size(max(room, 0.0))}). Raise --budget model.")
    cut = float(np.partition(weights, len(weights) - keep)[len(weights) - keep])
    return dataclasses.replace(config, threshold=max(cut, config.threshold))


def _sizes(rank: Linear) -> Any:
    w = rank.weights
    plain = np.abs(chunks.plain_weights(np.asarray(w.weights)))
    if not len(w.scale):
        return plain
    slot = np.asarray(w.slots).astype(np.int64) + np.repeat(w.slot_ptr[:-1], np.diff(w.entry_ptr))
    return plain * w.scale[slot]


def _cost(holdout: HoldOut, members: Sequence[Member], whole: Sequence[Member]) -> str:
    """P@5 of members within the budget and of whole ones on the held-out texts, and the 95 % interval of the loss."""
    found, full = _precisions(members, holdout), _precisions(whole, holdout)
    error = 1.96 * float((found - full).std()) / max(len(found), 1) ** 0.5
    return (
        f"P@5 on {len(found):,} held-out texts {found.mean():.2f} instead of {full.mean():.2f} "
        f"({found.mean() - full.mean():+.2f} ± {error:.2f})"
    )


def _precisions(members: Sequence[Member], holdout: HoldOut) -> NDArray[np.float64]:
    """P@5 of each held-out text, in percent."""
    best = blended([descend(member, holdout.views, 100) for member in members], holdout.blend, 5).padded(5)
    return 100.0 * np.asarray(hits(best, holdout.dataset.Y), np.float64).mean(1)
