"""Successive halving: many settings on few documents, the best quarter on four times as many, and so on.

The defaults are on every rung, so that every gain is measured against them on the same documents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treetop.assemble.advise.clock import seconds_at
from treetop.assemble.advise.judging import STEP, ladder
from treetop.assemble.advise.trials import CAUTION, Bench, Trial
from treetop.assemble.tune.space import Settings, as_words, proposals
from treetop.assemble.tune.tries import Tries, Try
from treetop.core.errors import ResourceError
from treetop.core.forecast import duration
from treetop.core.log import logger
from treetop.training import Plan

COLUMNS = {"balanced": [0, 1, 2], "precision": [0, 1], "tail": [2]}  # of hits: P@1, P@5, PSP@5
NOISE = 2.0  # standard errors by which settings must win
MOST = 60  # settings on the first rung
SPENT = 0.9  # share of the budget that is planned for


@dataclass(eq=False)
class Search:
    """One search: settings of a recipe on samples of one data set."""

    bench: Bench
    planned: Callable[[Settings], Plan]  # the recipe with some settings changed
    values: Mapping[str, list[Any]]
    tries: Tries

    def __post_init__(self) -> None:
        self.defaults: dict[int, Trial] = {}

    def run(self) -> list[Try]:
        """All tries of the last rung, best first."""
        sizes = ladder(min(len(fold.rows) for fold in self.bench.folds))
        first = self._try({}, sizes[0])
        if first is None:
            raise ResourceError("--budget time: not even the defaults can be tried in it. Raise it, or give less data.")
        sizes, count = planned_rungs(sizes, first.seconds, self.bench.clock.left)
        chosen = proposals(self.values, self.planned({}).settings, count, self.bench.job.seed)
        ranked = [first]
        for rung, size in enumerate(sizes):
            done = [found for settings in chosen if (found := self._try(settings, size)) is not None]
            if not any(not each.settings for each in done):
                break  # not even the defaults were in time
            ranked = sorted(done, key=lambda t: (-t.gain, len(t.settings)))
            kept = [t.settings for t in ranked if t.settings][: max(1, count // STEP ** (rung + 1) - 1)]
            chosen = [{}, *kept]
        return ranked

    def _try(self, settings: Settings, size: int) -> Try | None:
        """One try, or the same one of an earlier run; None where there is no time for it or the recipe refuses."""
        known = self.tries.find(settings, size)
        if known is not None:
            return known
        before = [t for t in self.tries.done if t.settings == settings and t.size < size]
        expected = seconds_at(size, [t.size for t in before], [t.seconds for t in before]) if before else 0.0
        expected = expected or max((t.seconds for t in self.tries.done if t.size == size), default=0.0)
        if CAUTION * expected > self.bench.clock.left or self.bench.clock.left <= 0:
            return None
        trial = self.bench.run(as_words(settings) or "defaults", self.planned(settings), size)
        if trial is None:
            return None
        if not settings:
            self.defaults[size] = trial
        found = self.tries.add(judged(settings, trial, self._defaults(size), self.bench.aim))
        logger.info(
            "%s on %s documents: P@1 %.2f, P@5 %.2f, gain %+.1f %%", as_words(settings) or "defaults", f"{size:,}",
            100 * found.p1, 100 * found.p5, 100 * found.gain,
        )  # fmt: skip
        return found

    def _defaults(self, size: int) -> Trial:
        """The defaults on this rung; trained again where an earlier run tried them."""
        if size not in self.defaults:
            trial = self.bench.run("defaults", self.planned({}), size)
            if trial is None:
                raise ResourceError("tune: the defaults cannot be trained on a sample of this data. Give more rows.")
            self.defaults[size] = trial
        return self.defaults[size]


def planned_rungs(sizes: Sequence[int], seconds: float, budget: float) -> tuple[list[int], int]:
    """Which of these sizes, and how many settings on the first: each rung takes about the same time.

    `seconds` is what one try on the first takes. The last rung leaves half of the budget to those before it.
    """
    room = SPENT * max(budget, 0.0)
    used = [size for size in sizes if 2.0 * seconds * size / sizes[0] <= room / 2.0] or [sizes[0]]
    return used, int(np.clip(room / len(used) / max(seconds, 1e-6), 2, MOST))


def judged(settings: Settings, trial: Trial, defaults: Trial, aim: str) -> Try:
    """Scores, and the gain over the defaults by document."""
    base = np.maximum(defaults.hits.mean(0), 1e-9)
    columns = COLUMNS[aim]
    gain = ((trial.hits - defaults.hits)[:, columns] / base[columns]).mean(1)
    return Try(
        settings, trial.size, trial.p1, trial.p5, float(trial.hits[:, 2].mean() / base[2]), float(gain.mean()),
        float(gain.std() / np.sqrt(len(gain))), trial.train + trial.rank,
    )  # fmt: skip


def best(ranked: Sequence[Try]) -> Try | None:
    """The first, where it beats the defaults by more than chance."""
    first = ranked[0]
    return first if first.settings and first.gain > NOISE * first.error else None


def table(tries: Sequence[Try]) -> list[str]:
    """A line for each try, the largest samples first."""
    rows = [("documents", "P@1", "P@5", "PSP@5", "gain", "time", "settings")]
    for t in sorted(tries, key=lambda t: (-t.size, -t.gain)):
        gain = f"{100 * t.gain:+.1f} ± {100 * NOISE * t.error:.1f} %"
        rows.append(
            (f"{t.size:,}", f"{100 * t.p1:.2f}", f"{100 * t.p5:.2f}", f"× {t.psp5:.3f}", gain if t.settings else "–",
             duration(t.seconds), as_words(t.settings).replace("--set ", "") or "defaults")
        )  # fmt: skip
    widths = [max(len(row[c]) for row in rows) for c in range(6)]
    return ["  ".join([*(cell.rjust(w) for cell, w in zip(row, widths, strict=False)), row[6]]) for row in rows]
