"""Advice as text: a table, the choice, and the line of a model's card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from treetop.assemble.advise.advice import Advice
from treetop.assemble.advise.choice import Estimate
from treetop.assemble.advise.trials import Trial
from treetop.core.curve import DOCUMENTS, Point
from treetop.core.forecast import duration

COLUMNS = ("recipe", "P@1", "P@5", "sample", "time", "fits")


def lines(advice: Advice) -> list[str]:
    """The table of candidates, what was spent, and the choice in two sentences."""
    rows = [COLUMNS, *(_row(estimate) for estimate in advice.estimates)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    table = [
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    trials = f"trials took {duration(advice.spent)} of the budget of {duration(advice.seconds)}"
    return [*table, trials, advice.choice.reason]


def card_line(advice: Advice) -> str:
    """What a model's card says of the trials: expected scores, which do not depend on the clock."""
    tried = [f"{e.name}: P@1 {100 * e.p1.value:.1f} of {e.size:,} texts" for e in advice.estimates if e.p1 is not None]
    return f"expected on all documents: {'; '.join(tried)}" if tried else "nothing was tried"


def learning_points(trials: Mapping[tuple[str, ...], Sequence[Trial]]) -> list[Point]:
    """The trials as points of a learning curve, which a report of the model shows."""
    return [
        {
            "stage": " + ".join(sources), "epoch": 0, "step": trial.size, DOCUMENTS: trial.size,
            "P@1": round(100 * trial.p1, 2), "P@5": round(100 * trial.p5, 2),
        }
        for sources, done in trials.items()
        for trial in done
    ]  # fmt: skip


def _row(e: Estimate) -> tuple[str, ...]:
    fits = "yes" if e.fits else "no"
    if e.p1 is None or e.p5 is None:
        return (e.name, "–", "–", "–", duration(e.seconds), fits)
    scores = [f"{100 * p.value:.1f} ± {max(100 * p.spread, 0.1):.1f}" for p in (e.p1, e.p5)]
    return (e.name, *scores, f"{e.size:,}", duration(e.seconds), fits)
