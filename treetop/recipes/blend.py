"""Blend: several recipes trained on the same texts, joined by a fusion learned on held-out documents.

Features, labels, tree, shortlist and rank: those of the recipes. Key idea: recipes err in different places. A linear
tree knows rare words, the nearest texts know rare labels, an encoder knows what words mean. A small model, logistic or
of boosted trees, monotone in every score, learns on held-out documents which of them to believe where, for the ranking
that is asked for (`--aim`), and what the result is worth as a probability. Recipes that train in seconds are then
trained again on all documents; networks stay as trained without the held-out ones.

With too few documents to hold some out, every fifth is answered by models trained on the others, and these answers
teach the fusion; with fewer than 500 documents, labels are ranked by the average of their ranks.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from treetop.assemble.blend import side_by_side
from treetop.assemble.held_out.folds import fitted_by_folds
from treetop.assemble.held_out.scores import fitted_to_held_out
from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.errors import ConfigError
from treetop.core.forecast import Forecast
from treetop.core.work import Job
from treetop.model import Model
from treetop.training import Plan, plan

GROUP = "ours"
FOLDS = True  # few documents teach the fusion by models of parts of them
COMPARES = True  # a linear recipe is among the sources as they come: no need to try it afterwards


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of `blend`."""

    sources: tuple[str, ...] = setting(
        ("xr_linear", "neighbours", "unidec:cpu"), "recipes to fuse, each with a preset behind a colon where it has one"
    )
    encoder: str = setting("", "encoder of the recipes that read texts with one; empty: their own")

    def __post_init__(self) -> None:
        if len(self.sources) < 2:
            raise ConfigError(f"sources: {len(self.sources)} recipe. Name two or more, such as xr_linear,neighbours.")
        for source in self.sources:
            if source.partition(":")[0].rpartition("+")[2] == "blend":
                raise ConfigError("sources: a blend cannot be a part of itself. Name the recipes to fuse.")


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """All recipes one after the other; those that train in seconds twice."""
    plans = _plans(config, dataset)
    needs = [planned.module.forecast(dataset, planned.config) for planned in plans]
    return Forecast(
        memory=max(each.memory for each in needs) + sum(each.model for each in needs),
        model=sum(each.model for each in needs),
        time=sum(each.time * (2 if planned.refits else 1) for planned, each in zip(plans, needs, strict=True)),
    )


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Train every recipe, learn the fusion on held-out documents, then train the quick recipes on all documents."""
    plans, alike, quick = _plans(config, dataset), [1.0] * len(config.sources), 0.0
    if job.folds:
        return _by_folds(plans, dataset, config, job)
    models = []
    for s, planned in enumerate(plans):
        started = time.monotonic()
        models.append(planned.fit(dataset, job.within(f"source-{s}")))
        quick += (time.monotonic() - started) * planned.refits
    if job.held_out is None:
        return _named(side_by_side(models, alike, "rank_average", learn=False), config, models)
    joined = _named(side_by_side(models, alike, "average", learn=True), config, models)
    fitted = fitted_to_held_out(joined, job.held_out, job.aim, job.seed, job.device)
    if job.everything is None or not any(planned.refits for planned in plans) or not job.may_repeat(quick):
        return fitted
    final = [
        planned.fit(job.everything, job.within(f"source-{s}-all")) if planned.refits else model
        for s, (planned, model) in enumerate(zip(plans, models, strict=True))
    ]
    whole = _named(side_by_side(final, alike, "average", learn=True), config, final)
    return replace(
        whole, fusion=fitted.fusion, calibration=fitted.calibration, counts=job.everything.label_counts,
        n_train=int(job.everything.documents.sum()),
    )  # fmt: skip


def _by_folds(plans: Sequence[Plan], dataset: Dataset, config: Config, job: Job) -> Model:
    """All recipes trained on all documents, with the fusion that models of parts of them teach."""

    def trained(rows: Dataset, inner: Job) -> list[Model]:
        return [planned.fit(rows, inner.within(f"source-{s}")) for s, planned in enumerate(plans)]

    def joined(rows: Dataset, inner: Job) -> Model:
        return side_by_side(trained(rows, inner), [1.0] * len(plans), "average", learn=True)

    started, job = time.monotonic(), replace(job, folds=False, reads={})
    models = trained(dataset, job)
    whole = _named(side_by_side(models, [1.0] * len(plans), "average", learn=True), config, models)
    fitted = fitted_by_folds(whole, joined, dataset, job, time.monotonic() - started)
    if fitted is not None:
        return fitted
    return _named(side_by_side(models, [1.0] * len(plans), "rank_average", learn=False), config, models)


def _named(model: Model, config: Config, models: Sequence[Model]) -> Model:
    """The model with a card that says which source each member is from."""
    pairs = zip(config.sources, models, strict=True)
    return replace(model, card=replace(model.card, data={"members": [s for s, m in pairs for _ in m.members]}))


def _plans(config: Config, dataset: Dataset) -> list[Plan]:
    found = []
    for source in config.sources:
        name, _, preset = source.partition(":")
        planned = plan(name, preset=preset or "default")
        if config.encoder and "encoder" in planned.settings:
            planned = plan(name, preset=preset or "default", settings={"encoder": {"model": config.encoder}})
        found.append(planned.settled(dataset))
    return found
