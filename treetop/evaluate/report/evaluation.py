"""An evaluation as one self-contained HTML page.

A page is a list of sections, each a function from `Page` to HTML (or "" when it has nothing to say).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from treetop.core.curve import Point
from treetop.core.types import Scores
from treetop.evaluate.match import Matches
from treetop.evaluate.metrics import curves
from treetop.evaluate.per_label import extremes
from treetop.evaluate.report import charts
from treetop.evaluate.report.cards import short_name, texts_section
from treetop.evaluate.report.conclusions import conclusions_section
from treetop.evaluate.report.epochs import training_section
from treetop.evaluate.report.examples import Examples
from treetop.evaluate.report.findings import Findings
from treetop.evaluate.report.learning import learning_section
from treetop.evaluate.report.page import document, number_cell, section, spanned, write
from treetop.evaluate.report.review import (
    alike_section,
    confused_section,
    missing_section,
    probabilities_section,
    tree_section,
)

MEANINGS = {
    "P": "share of the first k that are right",
    "R": "share of the true labels among the first k",
    "nDCG": "like P, early ranks count more",
    "PSP": "like P, rare labels count more",
    "PSnDCG": "like nDCG, rare labels count more",
    "C": "labels found at least once",
    "macroF1": "mean over labels",
    "microF1": "over all predictions",
}
TILES = ("P@1", "P@5", "nDCG@5", "R@10", "PSP@5", "C@10")
COUNTS = {
    "documents": "Documents",
    "positives": "True labels in all",
    "labels_tested": "Labels tested",
    "labels_tested_unseen": "of them never seen in training",
    "labels_tested_unknown": "of them unknown to the model",
    "documents_without_labels": "Documents without labels",
    "filter_pairs": "Filter pairs",
}


@dataclass(frozen=True)
class Page:
    """What the sections of a report may show."""

    title: str
    facts: Mapping[str, str]
    scores: Scores
    curves: Mapping[str, Sequence[float]]
    best: Sequence[Mapping[str, Any]]
    worst: Sequence[Mapping[str, Any]]
    examples: Examples | None = None
    training: Sequence[Point] = ()  # the curve of the model's training (`core/curve.py`)
    findings: Findings | None = None

    @classmethod
    def of(
        cls,
        matches: Matches,
        scores: Scores,
        facts: Mapping[str, str],
        *,
        examples: Examples | None = None,
        training: Sequence[Point] = (),
        findings: Findings | None = None,
    ) -> Page:
        """A page about a matched ranking; `facts` are shown as they are, "Model" and "Data" make the title."""
        title = " on ".join(facts[key] for key in ("Model", "Data") if key in facts) or "Evaluation"
        best, worst = extremes(matches, 12)
        return cls(title, facts, scores, curves(matches), best, worst, examples, training, findings)


def write_report(folder: Path, page: Page) -> Path:
    """Write `index.html` into `folder`; returns its path."""
    return write(folder, render(page))


def render(page: Page) -> str:
    """The page as one string of HTML."""
    counts = page.scores.counts
    lead = f"{counts['documents']:,} documents, {counts['labels_tested']:,} labels tested. All figures in percent"
    lead += ", ranges are 95 % intervals." if page.scores.intervals else "."
    body = "\n".join(sections for sections in (part(page) for part in SECTIONS) if sections)
    return document(page.title, lead, body)


def headline(page: Page) -> str:
    """The headline figures as tiles."""
    tiles = []
    for name in [name for name in TILES if name in page.scores.values]:
        value, interval = page.scores[name], page.scores.intervals.get(name)
        bounds = f"{interval[0]:.1f} – {interval[1]:.1f}" if interval else MEANINGS[name.split("@")[0]]
        gauge = charts.gauge(value, interval)
        tiles.append(f'<div class="tile"><span>{name}</span><b>{value:.2f}</b><span>{bounds}</span>{gauge}</div>')
    return f'<div class="tiles">{"".join(tiles)}</div>' if tiles else ""


def about(page: Page) -> str:
    """What was evaluated on what."""
    known = {title: f"{page.scores.counts[key]:,}" for key, title in COUNTS.items() if page.scores.counts.get(key)}
    rows = "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in {**page.facts, **known}.items())
    return section("Data and model", "What was measured, and on what.", f"<dl>{rows}</dl>")


def metrics(page: Page) -> str:
    """All metrics at all cuts."""
    names = list(dict.fromkeys(name.split("@")[0] for name in page.scores.values))
    cuts = list(dict.fromkeys(name.split("@")[1] for name in page.scores.values))
    head = "".join(f'<th class="number">at {cut}</th>' for cut in cuts)
    rows = []
    for name in names:
        columns = [f"{name}@{cut}" for cut in cuts]
        cells = "".join(number_cell(f"{page.scores[key]:.2f}", page.scores.intervals.get(key)) for key in columns)
        rows.append(f"<tr><th>{name}<small>{MEANINGS.get(name, '')}</small></th>{cells}</tr>")
    table = f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    note = "Coverage (C) and macroF1 are not sums over documents; resampling would bias them, so they have no interval."
    return section("Metrics", note, f"{table}{_thresholds(page)}")


def _thresholds(page: Page) -> str:
    """F1 of the labels of a calibrated model at or above a probability."""
    if not page.scores.thresholds:
        return ""
    keys = ("microF1", "macroF1", "precision", "recall", "labels_per_document")
    head = "".join(f'<th class="number">{key.replace("_", " ")}</th>' for key in keys)
    rows = ""
    for row in page.scores.thresholds:
        name = "best F1 on held-out texts" if row["name"] == "best F1" else "more likely right than wrong"
        cells = "".join(f'<td class="number">{row[key]:.2f}</td>' for key in keys)
        rows += f"<tr><th>≥ {row['threshold']:.2f}<small>{name}</small></th>{cells}</tr>"
    title = "<h3>Labels of at least a probability</h3>"
    return f"{title}<table><thead><tr><th></th>{head}</tr></thead><tbody>{rows}</tbody></table>"


def along_k(page: Page) -> str:
    """P, R, nDCG and PSP for every k."""
    note = (
        "How the figures move as more labels are shown. P falls because few documents have k labels: "
        "the dotted line is the best P any ranking could reach."
    )
    return section("Along the ranking", note, charts.lines(page.curves, dashed=("best P",)))


def frequency(page: Page) -> str:
    """Bins of frequent and rare labels as bars."""
    rows = page.scores.bins
    if not rows:
        return ""
    total = sum(row["P@5_share"] for row in rows if row["cut"] != "volume")
    groups = []
    for cut in ("frequency", "volume", "both"):
        lines = "".join(_bin_row(row, total) for row in rows if row["cut"] == cut and row["labels"])
        groups.append(f'<tbody class="group">{lines}</tbody>')
    head = '<th>Labels</th><th class="number">Training count</th><th class="number">Labels</th>'
    head += '<th class="barred">Share of P@5</th><th class="barred">R@10</th><th class="barred">C@10</th>'
    note = (
        "Labels by how often training saw them. Head, torso and tail are cut at 100 and 10; each volume holds a fifth "
        "of all label occurrences. With unseen labels the shares of either cut add up to P@5."
    )
    return section("Frequent and rare labels", note, f"<table><thead><tr>{head}</tr></thead>{''.join(groups)}</table>")


def _bin_row(row: Mapping[str, Any], total: float) -> str:
    counts = number_cell(spanned(row["train_counts"]), None)
    return (
        f'<tr><th>{escape(row["name"])}</th>{counts}<td class="number">{row["labels"]:,}</td>'
        f"{_barred(row['P@5_share'], total)}{_barred(row['R@10'], 100.0)}{_barred(row['C@10'], 100.0)}</tr>"
    )


def _barred(value: float, ceiling: float) -> str:
    return f'<td class="barred"><span>{value:.1f}</span>{charts.bar(value, ceiling)}</td>'


def by_label(page: Page) -> str:
    """The best and the worst labels."""
    if not page.best:
        return ""
    halves = []
    for title, rows in (("Best", page.best), ("Worst", page.worst)):
        lines = "".join(_label_row(row) for row in rows)
        head = '<th>Label</th><th class="number">Train</th><th class="number">Test</th><th class="barred">F1 at 5</th>'
        halves.append(f"<div><h3>{title}</h3><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>")
    note = (
        "By F1 among the first five; labels tested fewer than five times are left out where others suffice. "
        "All labels: treetop evaluate --per-label FILE."
    )
    return section("Best and worst labels", note, f'<div class="pair">{"".join(halves)}</div>')


def _label_row(row: Mapping[str, Any]) -> str:
    detail = f"precision {row['precision']:.0f}, recall {row['recall']:.0f}"
    return (
        f"<tr><th>{short_name(row['name'])}<small>{detail}</small></th>"
        f'<td class="number">{row["train_count"]:,}</td><td class="number">{row["test_positives"]:,}</td>'
        f"{_barred(row['F1'], 100.0)}</tr>"
    )


def texts(page: Page) -> str:
    """Some texts with the model's answers."""
    return "" if page.examples is None else texts_section(page.examples)


def learning(page: Page) -> str:
    """Scores against the number of training documents."""
    return learning_section(page.training)


def training(page: Page) -> str:
    """Loss and figures after every epoch of the training."""
    return training_section(page.training)


def conclusions(page: Page) -> str:
    """What a reader should take from the page."""
    return "" if page.findings is None else conclusions_section(page.scores, page.curves, page.findings)


def _found(part: Callable[[Findings], str]) -> Callable[[Page], str]:
    """A section about the findings as a section of the page."""
    return lambda page: "" if page.findings is None else part(page.findings)


SECTIONS: tuple[Callable[[Page], str], ...] = (
    conclusions,
    headline,
    about,
    _found(probabilities_section),
    metrics,
    along_k,
    frequency,
    by_label,
    _found(confused_section),
    _found(missing_section),
    _found(alike_section),
    _found(tree_section),
    learning,
    training,
    texts,
)
