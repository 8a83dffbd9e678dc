"""From data to advice: which recipe to train, the scores to expect and how long training will take."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from treetop.assemble.advise.choice import Choice, Estimate, caught_up, choose, estimated
from treetop.assemble.advise.clock import CPU_SECONDS, GPU_SECONDS, Clock, seconds_at
from treetop.assemble.advise.facts import CPU, NAMES, QUICK, Facts
from treetop.assemble.advise.judging import folds, ladder
from treetop.assemble.advise.trials import CAUTION, PAIR, Bench, Trial
from treetop.assemble.held_out.folds import FOLDS, may_fold
from treetop.assemble.held_out.hold_out import HoldOut, expected_size
from treetop.core import deadline
from treetop.core.dataset import Dataset
from treetop.core.errors import InputError, ResourceError
from treetop.core.forecast import duration, for_device
from treetop.core.log import each_once, logger
from treetop.core.work import Job
from treetop.training import Plan, plan

SHARE, GPU_SHARE = 0.25, 0.35  # fraction of the time budget that trials may take; networks start slowly on a GPU
BLENDS = 0.4  # fraction of that time reserved for blends
DEEPER = 2.0  # a real blend is fitted on more labels per document than one of a trial, most of them sampled
SAFETY = 1.3  # factor by which training may take longer than expected
UNTRIED = 2.5  # the same factor for a recipe known only by its forecast
LEAST_OFF = 0.5  # a single small trial lowers a recipe's forecast to this fraction at most
ENOUGH = 0.75  # a blend tried on this fraction of the documents needs no smaller trial
FEW = 3.0  # documents are few if so many times their number are fewer than the labels
WARM, ASKED = 100, 200  # documents on which quick recipes are run once before any trial, and validated
WARMING = 0.5  # fraction of the time budget that this may take, if kernels have to be compiled
SHORT = 20.0  # seconds of a budget that is too short for it
HOPELESS = 3.0  # a recipe whose forecast is longer than this many times the budget is not tried


@dataclass(frozen=True)
class Advice:
    """The advice and the evidence behind it."""

    facts: Facts
    estimates: tuple[Estimate, ...]
    choice: Choice
    seconds: float  # the whole time budget
    spent: float  # seconds that the trials took

    @property
    def table(self) -> list[dict[str, Any]]:
        """A row of plain values for each candidate."""
        return [
            {
                "recipe": e.name, "P@1": _points(e.p1), "P@5": _points(e.p5), "sample": e.size,
                "seconds": round(e.seconds, 1), "fits": e.fits, "chosen": e is self.choice.estimate,
            }
            for e in self.estimates
        ]  # fmt: skip


@dataclass(eq=False)
class Adviser:
    """Runs the trials on one data set within one time budget, and chooses."""

    dataset: Dataset
    job: Job
    budget: Mapping[str, float] = field(default_factory=dict)
    share: float | None = None  # of the time budget, for trials; None: by the machine
    names: Sequence[str] = ()  # candidates; empty: chosen by data and machine
    encoder: str = ""
    now: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        started = self.now()
        self.facts = Facts.of(
            self.dataset, self.job.device, self.encoder
        )  # may load torch, so the clock started before
        self.seconds = self.budget.get("time", GPU_SECONDS if self.facts.gpu else CPU_SECONDS)
        self.clock = Clock(self.seconds, self.now, [min(started, self.job.ends - self.seconds)])
        names = tuple(self.names) or self.facts.candidates
        self.too_slow = {n: self.facts.reading for n in names if self._is_too_slow(n)}  # not planned: loads no torch
        self.plans = {
            name: plan_of((name,), self.encoder).settled(self.dataset) for name in names if name not in self.too_slow
        }
        self.trials: dict[tuple[str, ...], list[Trial]] = {(name,): [] for name in self.plans}
        held_out = self.job.held_out
        self.n_held_out = expected_size(self.dataset) if held_out is None else len(held_out)
        self.by_folds = held_out is None and may_fold(self.dataset)  # these teach what held-out documents would

    def advise(self) -> Advice:
        """Try candidates on growing samples while the trials' share of the budget lasts, then choose."""
        with for_device(self.job.device):
            return self._advise()

    def _advise(self) -> Advice:
        with each_once():
            self._run_trials()
        n = self.facts.documents
        labels = np.diff(self.dataset.Y.indptr)[self.dataset.documents]
        ceiling = float(np.minimum(labels[labels > 0], 5).mean()) / 5.0 if (labels > 0).any() else 1.0
        spent = self.clock.spent
        estimates = []
        for sources, done in self.trials.items():
            seconds = self._seconds(sources)
            fits = SAFETY * seconds <= self.seconds - spent and self._has_room(sources)
            estimates.append(estimated(sources, done, n, ceiling, seconds, fits))
        estimates += [Estimate((name,), seconds, False) for name, seconds in self.too_slow.items()]
        estimates = caught_up(estimates, self.trials, n, ceiling)
        return Advice(self.facts, tuple(estimates), choose(estimates, self.trials, self._trusted), self.seconds, spent)

    def _run_trials(self) -> None:
        """Try candidates on samples of every size, then blends; a candidate that takes too long is dropped."""
        try:
            hold_outs = folds(self.dataset, self.job.seed) if len(self.plans) > 1 else []
        except InputError:  # all texts are the same
            hold_outs = []
        if not hold_outs:
            return
        reads = {} if self.job.reads is None else self.job.reads
        job = replace(self.job, work=None, held_out=None, everything=None, reads=reads)
        spent = [*self.clock.started]  # its own, as warming up counts in the budget, but not as a trial's time
        clock = replace(self.clock, seconds=(1.0 - BLENDS) * self._trial_seconds, started=spent)
        bench = Bench(self.dataset, hold_outs, job, clock, self.now, self.job.aim)
        self._warm(bench)
        self._singles(bench, ladder(min(len(fold.rows) for fold in hold_outs)))
        self._blends(replace(bench, clock=replace(clock, seconds=self._trial_seconds)))

    def _warm(self, bench: Bench) -> None:
        """Run quick recipes and their fusion on a few documents, so that no trial's seconds are those of a compiler."""
        if self.seconds < SHORT:
            return
        started, fold = self.now(), bench.folds[0]
        small = replace(bench, folds=[fold._replace(validation=fold.validation[:ASKED])])
        quick = [name for name in self.plans if self.plans[name].refits]
        with deadline.ending(stop=time.monotonic() + WARMING * self.seconds):
            tried = [trial for name in quick if (trial := small.run(name, self.plans[name], WARM)) is not None]
            if len(tried) > 1 and self._may_fuse(bench):
                small.blend("", tried)
        bench.clock.excuse(self.now() - started)

    def _may_fuse(self, bench: Bench) -> bool:
        """Whether `fit` could learn a fusion of several recipes."""
        if self.by_folds:
            return True
        return len(bench.folds) == 1 and (self.job.held_out is not None or HoldOut().holds_out(self.dataset))

    def _singles(self, bench: Bench, sizes: Sequence[int]) -> None:
        """The trial expected to be quickest comes next: quick recipes reach large samples before a slow one begins."""
        ahead = {name: [*sizes] for name in self.plans if self._seconds((name,)) <= HOPELESS * self.seconds}
        while ahead:
            name = min(ahead, key=lambda n: bench.expected(self.plans[n], ahead[n][0], self.trials[(n,)]))
            if not self._run_trial(bench, name, ahead[name].pop(0)) or not ahead[name]:
                del ahead[name]

    @property
    def _trusted(self) -> str:
        """A recipe to choose untried if documents are few against labels, because it reads label texts."""
        few = FEW * self.facts.documents < self.facts.labels and not self.names and self._names_help
        names = (name for name in (*CPU, *NAMES) if few and name in self.plans)
        return next((name for name in names if UNTRIED * self._seconds((name,)) <= self.clock.left), "")

    @property
    def _names_help(self) -> bool:
        """Whether labels are found by their names better than without, where both were tried."""
        by_name, others = (
            max((self.trials[(name,)][-1].p1 for name in names if self.trials.get((name,))), default=None)
            for names in (NAMES, QUICK)
        )
        return by_name is None or others is None or by_name > others

    def _is_too_slow(self, name: str) -> bool:
        """Whether encoding the texts alone takes longer than the budget."""
        return not self.names and name in CPU and self.facts.reading > self.seconds

    def _run_trial(self, bench: Bench, name: str, size: int) -> bool:
        """Run one trial; False if there is no time for it or the recipe cannot be chosen anyway."""
        done, bench = self.trials[(name,)], self._extended(bench, (name,), BLENDS * self._trial_seconds)
        rounds = bench.rounds(self.plans[name], size, done)
        if (done and self._seconds((name,)) > self.seconds) or not rounds:
            return False
        with deadline.ending(stop=time.monotonic() + self._limit(bench.clock)):
            trial = bench.run(name, self.plans[name], size, rounds)
        if trial is None:
            return False
        done.append(trial)
        logger.info(
            "%s on %s documents: P@1 %.1f, P@5 %.1f in %s", name, f"{size:,}", 100 * trial.p1, 100 * trial.p5,
            duration(trial.train + trial.rank),
        )  # fmt: skip
        return True

    @property
    def _trial_seconds(self) -> float:
        """Seconds of the time budget that trials may take."""
        usual = GPU_SHARE if self.facts.gpu else SHARE
        return (usual if self.share is None else self.share) * self.seconds

    def _limit(self, clock: Clock) -> float:
        """Seconds after which a trial is abandoned: the time that is left for all trials."""
        return max(max(self._trial_seconds, clock.seconds) - clock.spent, 0.0)

    def _extended(self, bench: Bench, sources: tuple[str, ...], kept: float = 0.0) -> Bench:
        """The bench with more time for a trial of `sources`, if training leaves some; `kept` seconds are for others.

        Beyond their share, trials may take what neither these sources nor a candidate that fits would need. A recipe
        that is chosen untried needs its time for training.
        """
        if self.share is not None or (sources == (self._trusted,) and not self.trials[sources]):
            return bench
        spent = self.clock.spent
        needs = [self._seconds(tried) for tried, done in self.trials.items() if done]
        fitting = [seconds for seconds in needs if SAFETY * seconds <= self.seconds - spent]
        folds = self.by_folds and len(sources) > 1
        ours = sum(self._in_folds(name) if folds else self._seconds((name,)) for name in sources)
        left = self.seconds - spent - SAFETY * max([ours, *fitting]) - kept
        return replace(bench, clock=replace(bench.clock, seconds=max(bench.clock.seconds, bench.clock.spent + left)))

    def _blends(self, bench: Bench) -> None:
        """Blend the two recipes tried on the largest samples, then three, up to all; on samples they have in common."""
        if not self._may_fuse(bench):
            return
        order = [*self.plans]
        tried = sorted((n for n in order if self.trials[(n,)]), key=lambda n: -self.trials[(n,)][-1].size)
        pair = PAIR
        for count in range(2, len(tried) + 1):
            sources = tuple(sorted(tried[:count], key=order.index))
            bench = self._extended(bench, sources)
            common = set.intersection(*({t.size for t in self.trials[(name,)]} for name in sources))
            blends: list[Trial] = []
            for size in sorted(common)[:-3:-1]:
                if (blends and blends[0].size >= ENOUGH * self.facts.documents) or not bench.may_blend(count, pair):
                    break
                parts = [next(t for t in self.trials[(name,)] if t.size == size) for name in sources]
                blends.append(bench.blend(" + ".join(sources), parts))
                pair = min(PAIR, CAUTION * blends[-1].rank / bench.pairs(count))
            if blends:
                self.trials[sources] = blends[::-1]

    def _seconds(self, sources: tuple[str, ...]) -> float:
        """Expected seconds of training on all documents, including calibration and fusion on held-out ones."""
        if len(sources) > 1:
            fused = self.trials[sources][-1]
            n = self.facts.documents if self.by_folds else self.n_held_out
            fusion = fused.rank * n / max(1, len(fused.hits)) * DEEPER
            return sum(self._in_folds(s) if self.by_folds else self._seconds((s,)) for s in sources) + fusion
        planned, done, n = self.plans[sources[0]], self.trials[sources], self.facts.documents
        twice = 1.0
        if planned.refits and (self.n_held_out or self.by_folds):
            twice = float(FOLDS) if self.by_folds else 2.0
        needs = float(planned.module.forecast(self.dataset, planned.config).time)
        if not done:
            return twice * needs
        last, sizes = done[-1], [t.size for t in done]
        judged = self.n_held_out / max(1, len(last.hits))
        if len(done) == 1:  # one time says little, as much of it may be start-up: scale the recipe's forecast
            sample = self.dataset.take(np.flatnonzero(self.dataset.documents)[: last.size])
            off = last.train / last.rounds / max(float(planned.module.forecast(sample, planned.config).time), 1e-9)
            return twice * needs * max(off, LEAST_OFF) + judged * last.rank * (n / last.size) ** 0.5
        train = [t.train / t.rounds for t in done]
        if planned.settings.get("frozen"):  # each trial encoded only the texts that the smaller ones had not
            train = list(np.cumsum(train))
        return twice * seconds_at(n, sizes, train) + judged * seconds_at(n, sizes, [t.rank for t in done])

    def _in_folds(self, source: str) -> float:
        """Expected seconds of a part of a blend that is trained on all documents and on parts of them."""
        once, planned = self._seconds((source,)), self.plans[source]
        if planned.refits:  # counted so already
            return once
        reading = min(self.facts.reading, once) if planned.settings.get("frozen") else 0.0  # texts are read once
        return reading + FOLDS * (once - reading)

    def _has_room(self, sources: tuple[str, ...]) -> bool:
        """Whether the forecast of memory and model size stays within the budget and the machine."""
        limits = {name: limit for name, limit in self.budget.items() if name in {"memory", "model"}}
        planned = plan_of(sources, self.encoder).settled(self.dataset)
        try:
            planned.module.forecast(self.dataset, planned.config).check(limits, None)
        except ResourceError:
            return False
        return True


def plan_of(sources: tuple[str, ...], encoder: str = "") -> Plan:
    """The plan of one recipe (`recipe:preset`), or of a blend of several."""
    if len(sources) > 1:
        return plan("blend", settings={"sources": list(sources), "encoder": encoder})
    name, _, preset = sources[0].partition(":")
    planned = plan(name, preset=preset or "default")
    if encoder and "encoder" in planned.settings:
        planned = plan(name, preset=preset or "default", settings={"encoder": {"model": encoder}})
    return planned


def _points(expected: Any) -> float | None:
    return None if expected is None else round(100 * float(expected.value), 1)
