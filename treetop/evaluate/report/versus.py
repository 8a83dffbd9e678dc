"""Several models on the same documents as one self-contained HTML page: scores, differences, rare labels, texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path

from treetop.core.types import Scores
from treetop.evaluate.paired import Difference
from treetop.evaluate.report import charts
from treetop.evaluate.report.cards import texts_section
from treetop.evaluate.report.examples import Examples
from treetop.evaluate.report.page import document, number_cell, section, spanned, write


@dataclass(frozen=True)
class Versus:
    """What the page shows; all mappings are by model in the same order, the first model is the baseline."""

    data: str
    facts: Mapping[str, Mapping[str, str]]  # model -> what it is
    scores: Mapping[str, Scores]
    differences: Mapping[str, Mapping[str, Difference]]  # from the first model; it has none itself
    examples: Examples
    note: str = ""  # what a reader must know before comparing

    @property
    def first(self) -> str:
        return next(iter(self.scores))


def write_versus(folder: Path, page: Versus) -> Path:
    """Write `index.html` into `folder`; returns its path."""
    return write(folder, render(page))


def render(page: Versus) -> str:
    """The page as one string of HTML."""
    counts = page.scores[page.first].counts
    lead = f"{counts['documents']:,} documents, {counts['labels_tested']:,} labels tested. All figures in percent, "
    lead += f"ranges are 95 % intervals. {page.note}".strip()
    parts = (about(page), metrics(page), differences(page), frequency(page), texts_section(page.examples))
    models = f"{len(page.scores)} models" if len(page.scores) > 1 else page.first
    return document(f"{models} on {page.data}", lead, "\n".join(part for part in parts if part))


def about(page: Versus) -> str:
    """What is compared."""
    names = list(dict.fromkeys(key for facts in page.facts.values() for key in facts))
    rows = ""
    for model, facts in page.facts.items():
        cells = "".join(f"<td>{escape(facts.get(name, ''))}</td>" for name in names)
        rows += f"<tr><th>{escape(model)}</th>{cells}</tr>"
    several = len(page.facts) > 1
    title, note = ("Models", "In the order they were given; the first is the baseline.") if several else ("Model", "")
    return section(title, note, _table(["Model", *names], rows))


def metrics(page: Versus) -> str:
    """All metrics of all models, the best of each marked."""
    rows = []
    for metric in page.scores[page.first].values:
        best = max(scores[metric] for scores in page.scores.values())
        cells = ""
        for scores in page.scores.values():
            value = f"{scores[metric]:.2f}"
            if scores[metric] == best and len(page.scores) > 1:
                value = f'<span class="better" role="img" aria-label="best">★</span> <b>{value}</b>'
            cells += number_cell(value, scores.intervals.get(metric))
        rows.append(f"<tr><th>{metric}</th>{cells}</tr>")
    note = "★ is the best of a row. " if len(page.scores) > 1 else ""
    note += "Coverage (C) and macroF1 are not sums over documents and have no interval."
    return section("Scores", note, _table(["", *page.scores], "".join(rows), numbers=True))


def differences(page: Versus) -> str:
    """Each model minus the first on the same documents."""
    if not page.differences:
        return ""
    shown = [name for name in page.scores[page.first].values if any(name in d for d in page.differences.values())]
    rows = "".join(
        f"<tr><th>{metric}</th>{''.join(_difference(found.get(metric)) for found in page.differences.values())}</tr>"
        for metric in shown
    )
    note = (
        f"Difference from {page.first} in percentage points, on the same documents. ▲ better and ▼ worse where the 95 "
        "% interval of the difference leaves out 0; p is how often exchanging answers at random gives as large a "
        "difference."
    )
    return section("Paired differences", note, _table(["", *page.differences], rows, numbers=True))


def _difference(d: Difference | None) -> str:
    if d is None:
        return '<td class="number">–</td>'
    low, high = d.interval
    sign = ""
    if low > 0:
        sign = '<span class="better" role="img" aria-label="better">▲</span> '
    elif high < 0:
        sign = '<span class="worse" role="img" aria-label="worse">▼</span> '
    sure = f"<small>{low:+.2f} to {high:+.2f}</small><small>p {d.p:.4f}</small>"
    return f'<td class="number">{sign}{d.value:+.2f}{sure}</td>'


def frequency(page: Versus) -> str:
    """R@10 by how often training saw a label."""
    rows = []
    for i, row in enumerate(page.scores[page.first].bins):
        if row["labels"]:
            about = f"<small>{row['labels']:,} labels, {spanned(row['train_counts'])} training texts</small>"
            cells = "".join(_recall(scores, i, row["labels"]) for scores in page.scores.values())
            rows.append(f'<tr><th class="wide">{escape(row["name"])}{about}</th>{cells}</tr>')
    if not rows:
        return ""
    note = (
        "R@10 of labels by how often training saw them. Head, torso and tail are cut at 100 and 10; each volume holds "
        "a fifth of all label occurrences."
    )
    return section("Frequent and rare labels", note, _table(["", *page.scores], "".join(rows)))


def _recall(scores: Scores, i: int, labels: int) -> str:
    row = scores.bins[i]
    other = f"<small>{row['labels']:,} labels</small>" if row["labels"] != labels else ""
    return f'<td class="stacked">{row["R@10"]:.1f}{charts.bar(row["R@10"], 100.0)}{other}</td>'


def _table(head: list[str], rows: str, *, numbers: bool = False) -> str:
    first, *others = head
    look = ' class="number"' if numbers else ""
    cells = "".join(f"<th{look}>{escape(name)}</th>" for name in others)
    return f"<table><thead><tr><th>{escape(first)}</th>{cells}</tr></thead><tbody>{rows}</tbody></table>"
