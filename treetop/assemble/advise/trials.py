"""Candidates and their blends, trained on samples and judged on documents that are not in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treetop.assemble.advise.clock import Clock, seconds_at
from treetop.assemble.advise.judging import Fold
from treetop.assemble.held_out.fusion import Aim, learn_fusion
from treetop.assemble.held_out.judged import Judged, places
from treetop.core.dataset import Dataset, Ints
from treetop.core.errors import TreetopError
from treetop.core.log import logger, quiet
from treetop.core.types import Ranking
from treetop.core.work import Job
from treetop.model import Model
from treetop.training import Plan

DEPTH = 20  # labels of each candidate that are judged, and fused
PAIR = 1e-4  # seconds in which a fusion learns from one of them, at most
CAUTION = 1.25  # by which a trial may take longer than expected


@dataclass(frozen=True, eq=False)
class Trial:
    """One candidate trained on `size` documents; `hits`: (judges, 3) as `found` counts them."""

    name: str
    size: int
    hits: NDArray[np.float64]
    train: float  # seconds, of all rounds
    rank: float  # seconds, for all judges
    rounds: int = 1  # models that were trained
    counts: Ints | None = None  # of the sample
    ranking: Ranking | None = None

    @property
    def p1(self) -> float:
        return float(self.hits[:, 0].mean())

    @property
    def p5(self) -> float:
        return float(self.hits[:, 1].mean()) / 5.0


@dataclass(frozen=True, eq=False)
class Bench:
    """Where trials run: the documents, how they judge, and until when."""

    dataset: Dataset
    folds: Sequence[Fold]
    job: Job
    clock: Clock
    now: Callable[[], float]
    aim: Aim = "balanced"

    def judges(self, fold: Fold) -> Dataset:
        """The documents that judge."""
        return self.dataset.take(fold.judges)

    def expected(self, plan: Plan, size: int, done: Sequence[Trial]) -> float:
        """Seconds a trial will take, by the recipe's forecast or by smaller trials."""
        first = len(done) == 1 and bool(plan.settings.get("frozen"))  # most of its time may have gone into label texts
        if done and not first:
            return seconds_at(
                size, [t.size for t in done], [len(self.folds) * (t.train + t.rank) / t.rounds for t in done]
            )
        needs = [
            plan.module.forecast(self.folds[0].sample(self.dataset, n), plan.config).time
            for n in (size, *(t.size for t in done))
        ]
        one = (done[0].train + done[0].rank) / done[0].rounds * needs[0] / needs[1] if done else needs[0]
        return len(self.folds) * float(one)

    def rounds(self, plan: Plan, size: int, done: Sequence[Trial]) -> int:
        """With how many of the folds a trial is expected to end in time; 0: none."""
        one = CAUTION * self.expected(plan, size, done) / len(self.folds)
        return min(len(self.folds), int(max(self.clock.left, 0.0) / max(one, 1e-9)))

    def may_blend(self, n: int) -> bool:
        """Whether a fusion of so many trials is expected to end in time."""
        return PAIR * n * DEPTH * len(self.folds[0].judges) <= self.clock.left

    def run(self, name: str, plan: Plan, size: int, rounds: int | None = None) -> Trial | None:
        """Train and judge, on all folds or the first ones; None where the recipe refuses the data."""
        hits, train, rank = [], 0.0, 0.0
        counts = ranking = None
        folds = self.folds[:rounds]
        for fold in folds:
            sample, judges, started = fold.sample(self.dataset, size), self.judges(fold), self.now()
            try:
                with quiet():
                    model: Model = plan.fit(sample, self.job)
                    train += self.now() - started
                    started = self.now()
                    ranking, counts = model.to(self.job.device).rank_dataset(judges, DEPTH), model.counts
                rank += self.now() - started
            except TreetopError as error:
                logger.info("%s: not tried on %s documents (%s)", name, f"{size:,}", error)
                return None
            judged = Judged.of([ranking], judges, counts, size)
            hits.append(found(judged, judged.pairs.score[:, 0]))
        return Trial(name, size, np.concatenate(hits), train, rank, len(folds), counts, ranking)

    def blend(self, name: str, parts: Sequence[Trial]) -> Trial:
        """A fusion of trials of the same sample, learnt on one half of the judges for the other."""
        started, judges = self.now(), self.judges(self.folds[0])
        counts, size = parts[0].counts, parts[0].size
        assert counts is not None  # noqa: S101 - trials of one fold keep what they rank
        judged = Judged.of([t.ranking for t in parts if t.ranking is not None], judges, counts, size)
        fused = learn_fusion(judged, counts, size, judges.propensity, self.aim, self.job.seed)
        lifted = fused.unseen * fused.fusion.rarity.factors(counts)[judged.pairs.ids]
        return Trial(name, size, found(judged, lifted), 0.0, self.now() - started)


def found(judged: Judged, score: NDArray[np.floating]) -> NDArray[np.float64]:
    """(documents, 3) right labels among the first, the first five, and these by their inverse propensity."""
    n, place = len(judged.pairs.indptr) - 1, places(judged.pairs, score)
    first, five = judged.hit * (place < 1), judged.hit * (place < 5)
    columns = [np.bincount(judged.pairs.rows, hit, n) for hit in (first, five, five * judged.gain)]
    made: NDArray[np.float64] = np.stack(columns, axis=1).astype(np.float64)
    return made
