"""Trials: candidates and their blends, trained on samples and validated on documents outside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treetop.assemble.advise.clock import Clock, seconds_at
from treetop.assemble.advise.judging import Fold
from treetop.assemble.held_out.folds import Answers
from treetop.assemble.held_out.fusion import Aim, learn_fusion
from treetop.assemble.held_out.judged import Judged, positions
from treetop.core.dataset import Dataset, Ints
from treetop.core.errors import TreetopError
from treetop.core.log import logger, quiet
from treetop.core.types import Ranking
from treetop.core.work import Job
from treetop.model import Model
from treetop.training import Plan

DEPTH = 20  # labels per document and candidate that are validated and fused
PAIR = 1e-4  # seconds that learning a fusion takes per (document, label) pair, at most
CAUTION = 1.25  # factor by which a trial may take longer than expected


@dataclass(frozen=True, eq=False)
class Trial:
    """One candidate trained on `size` documents; `hits`: (validation documents, 3) by `count_hits`."""

    name: str
    size: int
    hits: NDArray[np.float64]
    train: float  # seconds of training, all folds together
    rank: float  # seconds of ranking all validation documents
    rounds: int = 1  # folds that were used: one model each
    answers: tuple[tuple[Ranking, Ints], ...] = ()  # of every fold: its validation documents' labels, label frequencies

    @property
    def p1(self) -> float:
        return float(self.hits[:, 0].mean())

    @property
    def p5(self) -> float:
        return float(self.hits[:, 1].mean()) / 5.0


@dataclass(frozen=True, eq=False)
class Bench:
    """What all trials share: the data, its folds, the job and the clock."""

    dataset: Dataset
    folds: Sequence[Fold]
    job: Job
    clock: Clock
    now: Callable[[], float]
    aim: Aim = "balanced"

    def validation(self, fold: Fold) -> Dataset:
        """The fold's validation documents."""
        return self.dataset.take(fold.validation)

    def expected(self, plan: Plan, size: int, done: Sequence[Trial]) -> float:
        """Expected seconds of a trial, from smaller trials or from the recipe's forecast."""
        uncertain = len(done) == 1 and bool(plan.settings.get("frozen"))  # it may have spent most time on label texts
        if done and not uncertain:
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
        """The number of folds for which a trial is expected to end in time."""
        one = CAUTION * self.expected(plan, size, done) / len(self.folds)
        return min(len(self.folds), int(max(self.clock.left, 0.0) / max(one, 1e-9)))

    def may_blend(self, n: int, pair: float = PAIR) -> bool:
        """Whether fusing `n` trials, `pair` seconds for each (document, label) pair, is expected to end in time."""
        return pair * self.pairs(n) <= self.clock.left

    def pairs(self, n: int) -> float:
        """(document, label) pairs of `n` trials, at most."""
        return float(n * DEPTH * sum(len(fold.validation) for fold in self.folds))

    def run(self, name: str, plan: Plan, size: int, rounds: int | None = None) -> Trial | None:
        """Train and validate on the first `rounds` folds (default: all); None if the recipe refuses the data."""
        hits, answers, train, rank = [], list[tuple[Ranking, Ints]](), 0.0, 0.0
        folds = self.folds[:rounds]
        for fold in folds:
            sample, validation, started = fold.sample(self.dataset, size), self.validation(fold), self.now()
            try:
                with quiet():
                    model: Model = plan.fit(sample, self.job)
                    train += self.now() - started
                    started = self.now()
                    ranking, counts = model.to(self.job.device).rank_dataset(validation, DEPTH), model.counts
                rank += self.now() - started
            except TreetopError as error:
                logger.info("%s: not tried on %s documents (%s)", name, f"{size:,}", error)
                return None
            judged = Judged.of([ranking], validation, counts, size)
            hits.append(count_hits(judged, judged.pairs.score[:, 0]))
            answers.append((ranking, counts))
        return Trial(name, size, np.concatenate(hits), train, rank, len(folds), tuple(answers))

    def blend(self, name: str, parts: Sequence[Trial]) -> Trial:
        """A fusion of trials on the same samples, cross-fitted on the two halves of the validation documents."""
        started, size, found = self.now(), parts[0].size, []
        for fold, *each in zip(self.folds, *(part.answers for part in parts), strict=False):
            counts, validation = each[0][1], self.validation(fold)
            judged = Judged.of([ranking for ranking, _ in each], validation, counts, size)
            found.append(Answers(judged, counts, np.diff(validation.Y.indptr)))
        judged, counts, _ = Answers.concat(found)
        fused = learn_fusion(judged, counts, size, self.dataset.propensity, self.aim, self.job.seed)
        lifted = fused.fusion.rarity.lifted(fused.unseen, judged.pairs.indptr, judged.pairs.ids, counts)
        return Trial(name, size, count_hits(judged, lifted), 0.0, self.now() - started, len(found))


def count_hits(judged: Judged, score: NDArray[np.floating]) -> NDArray[np.float64]:
    """(documents, 3) right labels at 1 and at 5, and those at 5 weighted by inverse propensity."""
    n, position = len(judged.pairs.indptr) - 1, positions(judged.pairs, score)
    first, five = judged.hit * (position < 1), judged.hit * (position < 5)
    columns = [np.bincount(judged.pairs.rows, hit, n) for hit in (first, five, five * judged.gain)]
    hits: NDArray[np.float64] = np.stack(columns, axis=1).astype(np.float64)
    return hits
