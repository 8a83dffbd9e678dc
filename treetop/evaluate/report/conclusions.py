"""What a reader should take from a report, in a few sentences at its top."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from treetop.core.types import Scores
from treetop.evaluate.report.findings import SURE, Findings
from treetop.evaluate.report.page import section, spanned
from treetop.evaluate.trust import Accepted

WELL = 3.0  # points that probabilities may be off by and still be taken as they are
FEW = 20  # occurrences of a bin's labels; a recall of fewer is luck


def conclusions_section(scores: Scores, curves: Mapping[str, Sequence[float]], found: Findings) -> str:
    """Three to five sentences: how good, what may be accepted, where it is weak, what to look at."""
    said = (_good(scores, curves, found), _accept(found), _reliable(found), _weak(scores.bins), _look(found))
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in said if sentence)
    return section("In short", "", f'<ul class="says">{items}</ul>')


def accept_sentence(row: Accepted) -> str:
    """Such as "accept ≥ 0.70: 41 % of suggestions, 90 % right"."""
    return f"accept ≥ {row.threshold:.2f}: {row.share:.0f} % of suggestions, {row.precision:.0f} % right"


def _good(scores: Scores, curves: Mapping[str, Sequence[float]], found: Findings) -> str:
    interval = scores.intervals.get("P@1")
    sure = f" (95 % interval {interval[0]:.1f} to {interval[1]:.1f})" if interval else ""
    each = found.labels_per_document
    return (
        f"The first label is right for {curves['P'][0]:.1f} % of the texts{sure}; the first five hold "
        f"{curves['R'][4]:.0f} %, the first ten {curves['R'][9]:.0f} % of a text's true labels, of which it has "
        f"{each:.1f} on average."
    )


def _accept(found: Findings) -> str:
    if found.half is None:
        return (
            "The model is not calibrated: its scores do not say which suggestions can be accepted without a look. "
            "treetop calibrate MODEL DATA adds probabilities."
        )
    row = dict(found.accepted).get(90)
    if row is None:
        return (
            "No threshold makes nine in ten suggestions right on these texts, so a person should look at all of them; "
            f"{accept_sentence(found.half)}."
        )
    return (
        f"Without a look, {accept_sentence(row)}. That is {row.per_document:.1f} labels per text and {row.recall:.0f} "
        f"% of all true labels; {row.documents:.0f} % of the texts get at least one."
    )


def _reliable(found: Findings) -> str:
    if found.reliability is None:
        return ""
    off = found.reliability.error
    if off <= WELL:
        return f"Probabilities can be taken as they are: they are off by {off:.1f} points on average."
    mean = [sum(values) / len(values) for values in (found.reliability.predicted, found.reliability.observed)]
    way = "high" if mean[0] > mean[1] else "low"
    return (
        f"Probabilities are off by {off:.1f} points on average, mostly too {way}: these texts are unlike those the "
        "model was calibrated on. Calibrate it on some that are like these (treetop calibrate)."
    )


def _weak(bins: Sequence[Mapping[str, Any]]) -> str:
    rows = [row for row in bins if row["cut"] != "volume" and row["positives"] >= FEW]
    if len(rows) < 2:
        return ""
    worst, best = min(rows, key=lambda row: row["R@10"]), max(rows, key=lambda row: row["R@10"])
    if worst["R@10"] >= best["R@10"]:
        return ""
    weak, good = (f"{row['name']} labels ({_seen(row)})" for row in (worst, best))
    return (
        f"It is weakest on {weak}, of which the first ten hold {worst['R@10']:.0f} %, against {best['R@10']:.0f} % of "
        f"{good}."
    )


def _seen(row: Mapping[str, Any]) -> str:
    counts = row["train_counts"]
    return "no training text" if counts[-1] == 0 else f"{spanned(counts)} training texts"


def _look(found: Findings) -> str:
    said = []
    if found.sure:
        sure = f"{found.sure:,} label{'s' * (found.sure > 1)} of a probability of {SURE} or more"
        said.append(f"{sure} that the data lack, so one of the two is wrong")
    if found.close:
        pair = found.close[0]
        said.append(f"“{_brief(pair.predicted)}” given for “{_brief(pair.true)}” in {pair.documents:,} texts")
    if same := sum(group.same for group in found.alike):
        named = sum(group.similarity is None for group in found.alike)
        many = "at least " if same == named and same >= 30 else ""
        said.append(f"{many}{same:,} group{'s' * (same > 1)} of labels with the same name")
    if apart := sum(group.similarity is not None for group in found.alike):
        least = "at least " if apart >= 30 else ""
        said.append(f"{least}{apart:,} pair{'s' * (apart > 1)} of labels that the model cannot tell apart")
    return f"Worth a look: {'; '.join(said)}." if said else ""


def _brief(name: str, most: int = 40) -> str:
    return name if len(name) <= most else f"{name[:most].rsplit(' ', 1)[0].rstrip(',;:')} …"
