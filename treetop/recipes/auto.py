"""Auto: tries recipes on samples of the data, then trains the one that promises most within the time budget.

Features, labels, tree, shortlist and rank: those of the recipe that is chosen. Key idea: which recipe is best depends
on the number of texts per label, on label texts and on the machine; trials on growing samples, judged on other
documents, say more than a rule. A learning curve takes their scores to all documents, their seconds say what fits the
budget (`--budget time=10min`; without one 15 minutes, on a GPU 5). Candidates: `xr_linear`, `neighbours`, where labels
have names `lexical`, where there is an encoder `unidec:cpu`, or on a GPU `lightxml`, `renee` and `unidec`; and the
blend of those that were tried.

Trials take a quarter of the budget, and more only where training leaves it. As they depend on the clock, so may the
choice: the same seed gives the same model only where the same recipe is chosen. `treetop advise` shows the trials and
trains nothing. A budget is kept even where a training takes longer than expected: a network makes fewer steps, a recipe
that would not be trained twice in time stays as it was without the held-out documents, and one that would not end gives
way to the first candidate.
"""

from __future__ import annotations

import math
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from treetop.assemble.advise.advice import Adviser, plan_of
from treetop.assemble.advise.said import card_line, learning_points, lines
from treetop.assemble.held_out.scores import fitted_to_held_out
from treetop.core import curve, deadline
from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.deadline import TimeUpError
from treetop.core.errors import ConfigError
from treetop.core.forecast import Forecast
from treetop.core.log import logger
from treetop.core.store import Part
from treetop.core.work import Job
from treetop.model import Model
from treetop.training import Plan, with_folds

GROUP = "ours"
RESERVE = 0.15  # of the budget, kept for the first candidate where another one is trained
AFTER = 0.1  # of the budget, for what comes after the last step of a network
FOLDS = True  # few documents teach a fusion by models of parts of them
COMPARES = True  # a linear recipe is among the candidates: no need to try it afterwards


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of `auto`."""

    candidates: tuple[str, ...] = setting(
        (), "recipes to try, each with a preset behind a colon where it has one; empty: by data and machine"
    )
    share: float | None = setting(
        None,
        "share of the time budget that trials may take; null: 0.25, on a GPU 0.35, and what training leaves",
        low=0.0,
        high=0.9,
    )
    encoder: str = setting("", "encoder of the recipes that read texts with one; empty: their own")

    def __post_init__(self) -> None:
        if any(name.partition(":")[0].rpartition("+")[2] in {"auto", "blend"} for name in self.candidates):
            raise ConfigError(
                "candidates: neither auto nor blend can be one. Name single recipes; blends are tried too."
            )


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """Of the first candidate, which is trained where the budget is short."""
    planned = plan_of(config.candidates[:1] or ("xr_linear",), config.encoder).settled(dataset)
    needs: Forecast = planned.module.forecast(dataset, planned.config)
    return replace(needs, copies=0.0)  # no probe: trials are one


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Try, choose, train; what a frozen encoder has read in trials is not read again."""
    job = replace(job, reads={} if job.reads is None else job.reads)

    def make() -> Part:
        adviser = Adviser(dataset, job, job.budget, config.share, config.candidates, config.encoder)
        advice = adviser.advise()
        for line in lines(advice):
            logger.info("%s", line)
        if job.work is not None:
            for point in learning_points(adviser.trials):
                curve.append(job.work / curve.FILE, point)
        sources = list(advice.choice.estimate.sources)
        return Part("stage.advice.1", {"sources": sources, "said": card_line(advice)})

    chosen = job.stage("advice", make).config  # kept, so that a run that is continued trains the same recipe
    sources, quick = tuple(chosen["sources"]), config.candidates[:1] or ("xr_linear",)
    try:
        with _in_time(job, sources == quick):
            model = _train(plan_of(sources, config.encoder).settled(dataset), dataset, job)
    except TimeUpError:
        logger.warning("%s would not end within the budget; %s is trained instead", " + ".join(sources), quick[0])
        sources = quick
        model = _train(plan_of(quick, config.encoder).settled(dataset), dataset, job.within("instead"))
    said = {**model.card.data, "chosen": " + ".join(sources), "auto": chosen["said"]}
    return replace(model, card=replace(model.card, data=said))


def _in_time(job: Job, quick: bool) -> AbstractContextManager[None]:
    """Keep some of the time for the first candidate, unless it is the one that is trained."""
    if quick or job.ends == math.inf:
        return nullcontext()
    whole = job.budget["time"]
    return deadline.ending(steps=job.ends - (RESERVE + AFTER) * whole, stop=job.ends - RESERVE * whole)


def _train(planned: Plan, dataset: Dataset, job: Job) -> Model:
    """As `fit` would: without held-out documents, with what they teach, and where there is time on all once more."""
    started, again = time.monotonic(), job.everything if planned.refits else None
    model = with_folds(planned, dataset, job if again is None else job.within("held-out"))
    if job.held_out is not None and model.calibration is None:
        model = fitted_to_held_out(model, job.held_out, job.aim, job.seed, job.device)
    if again is None or not job.may_repeat(time.monotonic() - started):
        return model
    return replace(planned.fit(again, job.within("all")), fusion=model.fusion, calibration=model.calibration)
