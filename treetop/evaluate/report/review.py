"""Probabilities and errors worth a look, as HTML sections; each is "" where there is nothing to show."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from treetop.evaluate.inseparable import LABELS as COMPARED
from treetop.evaluate.inseparable import NEAR
from treetop.evaluate.report import charts
from treetop.evaluate.report.cards import short_name
from treetop.evaluate.report.conclusions import accept_sentence
from treetop.evaluate.report.findings import Alike, Confused, Findings, Region, Suspect
from treetop.evaluate.report.page import section
from treetop.evaluate.trust import BINS, FIRST, Accepted
from treetop.evaluate.twins import LABELS

OPEN = 10  # rows of a table that are shown at once


def probabilities_section(found: Findings) -> str:
    """Whether probabilities hold, and what accepting suggestions above a threshold does."""
    if found.reliability is None:
        return ""
    row = dict(found.accepted).get(90)
    said = f"<p><b>{escape(accept_sentence(row)[0].upper() + accept_sentence(row)[1:])}.</b></p>" if row else ""
    reliable = charts.plane(
        found.reliability.predicted, found.reliability.observed, ("predicted, %", "right, %"), diagonal=True
    )
    accept = charts.plane(*found.acceptance, ("accepted, % of suggestions", "right, %"))
    body = (
        f'{said}<div class="pair"><div><h3>Predicted against observed</h3>{reliable}</div>'
        f"<div><h3>Precision against share accepted</h3>{accept}</div></div>{_accepted(found)}"
    )
    note = (
        f"Of the first {FIRST} labels of each text. Left: {BINS} bins of equally many suggestions; on the dotted line "
        f"probabilities are exact. Expected calibration error {found.reliability.error:.1f} points. Right: the most "
        "probable suggestions are accepted first. Thresholds were chosen on these texts; others may give a little less."
    )
    return section("Probabilities", note, body)


def _accepted(found: Findings) -> str:
    titles = (
        "Accept from",
        "Suggestions accepted",
        "Right",
        "Of all true labels",
        "Texts with at least one",
        "Per text",
    )
    head = "<th>Wanted</th>" + "".join(f'<th class="number">{title}</th>' for title in titles)
    return _table(head, [f"<tr><th>{wanted} % right</th>{_figures(row)}</tr>" for wanted, row in found.accepted])


def _figures(row: Accepted | None) -> str:
    if row is None:
        return '<td class="number" colspan="6">at no threshold</td>'
    percent = (row.share, row.precision, row.recall, row.documents)
    cells = [f"{row.threshold:.2f}", *(f"{value:.1f} %" for value in percent), f"{row.per_document:.2f}"]
    return "".join(f'<td class="number">{cell}</td>' for cell in cells)


def missing_section(found: Findings) -> str:
    """Likely missing labels."""
    rows = [_suspect(item) for item in found.missing]
    head = '<th>Text</th><th>Label it lacks</th><th class="number">Probability</th><th>Labels it has, rare first</th>'
    note = (
        "Labels that the model is sure of and the data do not have, the most probable first and rare ones first "
        "among equals, at most five of one label. Some are errors of the model, others omissions of whoever labelled "
        "the texts."
    )
    return section("Likely missing labels", note, _folded(head, rows)) if rows else ""


def _suspect(item: Suspect) -> str:
    more = " …" if item.left_out else ""
    name = f"<small>{escape(item.id)}</small>" if item.id else ""
    true = "".join(f"<small>{short_name(label)}</small>" for label in item.true)
    true += f"<small>and {item.more} more</small>" if item.more else ""
    return (
        f'<tr><td class="text" dir="auto">{escape(item.text)}{more}{name}</td><th>{short_name(item.label)}</th>'
        f'<td class="number">{item.probability:.3f}</td><td>{true or "<small>none</small>"}</td></tr>'
    )


def _folded(head: str, rows: Sequence[str]) -> str:
    """A table whose further rows are shown when asked for."""
    first, others = (_table(head, part) for part in (rows[:OPEN], rows[OPEN:]))
    if len(rows) <= OPEN:
        return first
    return f"{first}<details><summary>{len(rows) - OPEN} more</summary>{others}</details>"


def _table(head: str, rows: Sequence[str]) -> str:
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def confused_section(found: Findings) -> str:
    """Which labels are taken for which."""
    head = '<th>Given</th><th>True, but missed</th><th class="barred">Texts</th><th class="number">Texts with it</th>'
    body = ""
    for title, pairs in (("Closest", found.close), ("Most frequent", found.confused)):
        most = max((pair.documents for pair in pairs), default=0)
        if pairs:
            body += f"<h3>{title}</h3>{_folded(head, [_pair(pair, most) for pair in pairs])}"
    note = (
        "A text with m true labels has m places. Counted is how often the left label was wrongly at one of the first m "
        "while the right one was true and not among them. Frequent labels are wrong beside everything; the closest "
        "pairs are those whose errors come together."
    )
    return section("Confused labels", note, body) if body else ""


def _pair(pair: Confused, most: int) -> str:
    return (
        f"<tr><th>{short_name(pair.predicted)}</th><td>{short_name(pair.true)}</td>"
        f'<td class="barred"><span>{pair.documents:,}</span>{charts.bar(pair.documents, most)}</td>'
        f'<td class="number">{pair.of:,}</td></tr>'
    )


def alike_section(found: Findings) -> str:
    """Labels that may be the same."""
    rows = ""
    for group in found.alike:
        names = "".join(
            f"<div>{short_name(name)} <small>{escape(label)}, {count:,} training text{'s' * (count != 1)}</small></div>"
            for label, name, count in group.labels
        )
        more = f"<small>and {group.more} more</small>" if group.more else ""
        rows += f"<tr><td>{_why(group)}</td><td>{names}{more}</td></tr>"
    if not rows:
        return ""
    note = (
        "Names that differ in case, spaces and punctuation only, or in the order or number of their words (those of "
        f"the {LABELS:,} most frequent labels are compared). Not told apart are labels whose vectors in the model are "
        f"each other's nearest, with a cosine of {NEAR} or more (of the {COMPARED:,} most frequent): they stand on the "
        "same training texts, as two labels for one thing do, or one that always comes with the other. Two labels for "
        "one thing take texts from each other: treetop labels merge makes them one."
    )
    return section("Nearly the same labels", note, f"<table><tbody>{rows}</tbody></table>")


def _why(group: Alike) -> str:
    if group.similarity is not None:
        return f"not told apart<small>cosine {group.similarity:.2f}</small>"
    return "same name" if group.same else "same words"


def tree_section(found: Findings) -> str:
    """The label tree, its weakest regions first."""
    if not found.regions:
        return ""
    note = (
        f"Levels of the label tree: {' → '.join(f'{size:,}' for size in found.sizes)} labels. Shown are the regions "
        "with most true labels that are not among a text's first ten, each by its most frequent labels."
    )
    return section("Label tree", note, "".join(_region(region) for region in found.regions))


def _region(region: Region) -> str:
    share = f"{100 * region.found / region.true:.0f} % of {region.true:,} found" if region.true else "not tested"
    count = f"{region.labels:,} label{'s' * (region.labels != 1)}"
    title = f"<b>{short_name(region.names[0])}</b> <small>{count}, {share}</small>"
    others = "".join(f"<small>{short_name(name)}</small>" for name in region.names[1:])
    below = "".join(_region(child) for child in region.children)
    if region.hidden:
        below += f'<p class="leaf"><small>{region.hidden:,} more below</small></p>'
    return f"<details><summary>{title}</summary>{others}{below}</details>"
