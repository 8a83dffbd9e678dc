"""Expected scores and time of every candidate at full size, and the best of those that fit the budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from treetop.assemble.advise.curve import Expected, borrowed, extrapolated
from treetop.assemble.advise.trials import Trial
from treetop.core.forecast import duration

NOISE = 2.0  # standard errors of a score on the validation documents that its uncertainty counts
USUAL = {"neighbours": "xr_linear"}  # untried, the latter is preferred: better on four of five data sets


@dataclass(frozen=True)
class Estimate:
    """What is expected of a candidate trained on all documents; a blend has several sources."""

    sources: tuple[str, ...]
    seconds: float
    fits: bool  # in time, memory and model size
    p1: Expected | None = None  # None: not tried
    p5: Expected | None = None
    size: int = 0  # documents of the largest sample

    @property
    def name(self) -> str:
        return self.sources[0] if len(self.sources) == 1 else f"blend of {', '.join(self.sources)}"

    @property
    def command(self) -> str:
        """What `treetop fit` is given."""
        if len(self.sources) > 1:
            return f"blend --set sources={','.join(self.sources)}"
        recipe, _, preset = self.sources[0].partition(":")
        return f"{recipe} --preset {preset}" if preset else recipe


@dataclass(frozen=True)
class Choice:
    """The candidate to train, and why, in two sentences."""

    estimate: Estimate
    reason: str


def estimated(
    sources: tuple[str, ...], trials: Sequence[Trial], n: int, ceiling: float, seconds: float, fits: bool
) -> Estimate:
    """From trials at rising sizes; none: not tried."""
    if not trials:
        return Estimate(sources, seconds, fits)
    sizes = [trial.size for trial in trials]
    p1 = extrapolated(sizes, [trial.p1 for trial in trials], n)
    p5 = extrapolated(sizes, [trial.p5 for trial in trials], n, ceiling)
    noise = NOISE * trials[-1].hits.std(0)[:2] / np.sqrt(len(trials[-1].hits)) / (1.0, 5.0)
    p1, p5 = (Expected(p.value, p.spread + float(more)) for p, more in zip((p1, p5), noise, strict=True))
    return Estimate(sources, seconds, fits, p1, p5, sizes[-1])


def caught_up(
    estimates: Sequence[Estimate], trials: Mapping[tuple[str, ...], Sequence[Trial]], n: int, ceiling: float
) -> list[Estimate]:
    """Estimates of candidates with a single sample, by the rise of one that was tried on more.

    That is the one tried on the largest sample; of several the one whose score on the single sample was most alike, as
    scores near zero rise much faster.
    """
    made = []
    for e in estimates:
        done = trials.get(e.sources, [])
        if e.p1 and e.p5 and len(done) == 1 and e.size < n and (found := _guide(done[0], estimates, trials)):
            then, guide = found
            assert guide.p1 is not None and guide.p5 is not None  # noqa: S101 - it was tried
            p1 = borrowed(done[0].p1, then.p1, guide.p1.value)
            p5 = borrowed(done[0].p5, then.p5, guide.p5.value, ceiling)
            e = replace(
                e, p1=Expected(p1.value, p1.spread + e.p1.spread), p5=Expected(p5.value, p5.spread + e.p5.spread)
            )
        made.append(e)
    return made


def _guide(
    trial: Trial, estimates: Sequence[Estimate], trials: Mapping[tuple[str, ...], Sequence[Trial]]
) -> tuple[Trial, Estimate] | None:
    """(a trial on a sample of the same size, the estimate of its candidate), by which another one's score may rise."""
    largest = max((e.size for e in estimates), default=0)
    found = [
        (then, e)
        for e in estimates
        if e.size == largest > trial.size and (then := _same_size(trial, trials.get(e.sources, []))) is not None
    ]
    return min(found, key=lambda pair: (abs(pair[0].p1 - trial.p1), len(pair[1].sources)), default=None)


def choose(
    estimates: Sequence[Estimate], trials: Mapping[tuple[str, ...], Sequence[Trial]], trusted: str = ""
) -> Choice:
    """The best single recipe that fits; a blend that fits where it is better.

    Recipes that were not tried are chosen where nothing was, the first that fits; where nothing fits, the quickest. The
    one that is `trusted` is taken untried where it fits.
    """
    fitting = [e for e in estimates if e.fits]
    for e in fitting:
        if e.name == trusted and e.p1 is None:
            return Choice(
                e,
                f"{e.name} could not be tried in the budget, but it fits, in {_about(e)}. It reads label texts, which "
                "is worth more than any trial of other recipes where documents are fewer than labels.",
            )
    tried = [e for e in fitting if e.p1 is not None]
    singles = [e for e in tried if len(e.sources) == 1]
    if not singles:
        return _untried(estimates, fitting)
    best = max(singles, key=lambda e: score(e, tried))
    for e in fitting:
        if e.p1 is None and e.name == USUAL.get(best.name):
            why = f"It could not be tried in the budget, but it fits, and on most data it is better than {best.name}."
            return Choice(e, f"{e.name} is expected to take {_about(e)}. {why}")
    first = f"{best.name} is expected to reach P@1 {_percent(best.p1)} and P@5 {_percent(best.p5)} in {_about(best)}."
    for blend in sorted((e for e in tried if len(e.sources) > 1), key=lambda e: -score(e, tried)):
        ours, theirs = trials[blend.sources], trials[best.sources]
        if score(blend, tried) > score(best, tried) and wins(ours[-1], _same_size(ours[-1], theirs)):
            return Choice(
                blend,
                f"The {blend.name} is expected to reach P@1 {_percent(blend.p1)} and P@5 {_percent(blend.p5)} in "
                f"{_about(blend)}. The best single recipe is {best.name}: P@1 {_percent(best.p1)}, in {_about(best)}.",
            )
    others = [e for e in singles if e is not best]
    why = "Nothing else was tried that fits the budget."
    if others:
        second = max(others, key=lambda e: score(e, tried))
        why = f"Next is {second.name} (P@1 {_percent(second.p1)}, {_about(second)})"
        why += ", and no blend that fits is better." if trials.keys() - {(e.name,) for e in estimates} else "."
    return Choice(best, f"{first} {why}")


def score(estimate: Estimate, among: Sequence[Estimate]) -> float:
    """P@1 and P@5 alike, each relative to the best."""
    total = 0.0
    for name in ("p1", "p5"):
        values = [getattr(e, name).value for e in among if e.p1 is not None]
        total += getattr(estimate, name).value / max([1e-9, *values])
    return total


def wins(one: Trial, other: Trial | None) -> bool:
    """Whether one trial is better than another on the same documents; a learned fusion loses little where it is not."""
    if other is None or len(one.hits) != len(other.hits):
        return False
    ours, theirs = one.hits[:, :2], other.hits[:, :2]
    gain = ((ours - theirs) / np.maximum(np.maximum(ours.mean(0), theirs.mean(0)), 1e-9)).sum(1)
    return bool(gain.mean() > 0.0)


def _same_size(trial: Trial, others: Sequence[Trial]) -> Trial | None:
    return next((other for other in others if other.size == trial.size), None)


def _untried(estimates: Sequence[Estimate], fitting: Sequence[Estimate]) -> Choice:
    if fitting:
        return Choice(fitting[0], f"The budget leaves no time for trials. {fitting[0].name} is quick on any data.")
    quickest = min(estimates, key=lambda e: e.seconds)
    return Choice(
        quickest, f"Nothing fits the budget. {quickest.name} is the quickest: about {duration(quickest.seconds)}."
    )


def _percent(expected: Expected | None) -> str:
    return "?" if expected is None else f"{100 * expected.value:.1f}"


def _about(estimate: Estimate) -> str:
    return duration(estimate.seconds) if estimate.seconds < 1 else f"about {duration(estimate.seconds)}"
