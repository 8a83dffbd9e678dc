"""What is inside a model as an HTML page: recall of shortlists, and curves over the layers of its encoders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from treetop.evaluate.report import charts
from treetop.evaluate.report.page import document, section

RECALL = "Share of the texts' labels that each shortlist holds: what it leaves out, no level below can find."
ENTROPY = (
    "Entropy of the first token's attention over the tokens of a text, in percent of the entropy of even attention, "
    "mean over heads and texts: a large value means that attention is given to many tokens."
)
OWN = "Attention of the first token to itself in percent: {}, mean over texts."
LIKE = (
    "Projection-weighted canonical correlation (PWCCA) of the first token's states with those of the last layer, in "
    "percent. It is too high where there are not many times more texts than dimensions."
)
BOTH = "PWCCA of the first token's states on the same layer of two encoders, in percent."


def page(title: str, found: Mapping[str, Any]) -> str:
    """The whole page."""
    lead, parts = f"{found['texts']:,} texts", [section("Recall of shortlists", RECALL, _table(found["shortlists"]))]
    encoders = found["encoders"][: charts.COLOURS]
    if encoders:
        own = [{one["name"]: one["self_attention"][key] for one in encoders} for key in ("average", "maximum")]
        even = {one["name"]: one["relative_entropy"] for one in encoders}
        parts += [
            section("Attention of the first token", ENTROPY, _curves(even)),
            section("Attention to itself", OWN.format("mean over heads"), _curves(own[0])),
            section("Most attention to itself", OWN.format("the head with most"), _curves(own[1])),
            section("Layers compared", LIKE, _curves({e["name"]: e["pwcca"][-1] for e in encoders})),
        ]
    if found["between"]:
        pairs = {f"{pair['first']}, {pair['second']}": pair["pwcca"] for pair in found["between"][: charts.COLOURS]}
        parts.append(section("Encoders compared", BOTH, _curves(pairs)))
    return document(title, lead, "\n".join(parts))


def _curves(series: Mapping[str, Sequence[float]]) -> str:
    """Hundredfold values over the layers; encoders of another depth have a chart of their own."""
    charts_ = []
    for depth in dict.fromkeys(len(values) for values in series.values()):
        same = {name: [100.0 * value for value in values] for name, values in series.items() if len(values) == depth}
        charts_.append(charts.lines(same, axis="layer ", at=range(1, depth + 1)))
    return "\n".join(charts_)


def _table(lines: Sequence[Mapping[str, Any]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in ("member", "level", "nodes", "candidates of a text", "recall"))
    rows = "".join(
        "<tr>" + "".join(f'<td class="number">{escape(value)}</td>' for value in _cells(line)) + "</tr>"
        for line in lines
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _cells(line: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        f"{line['member']}", f"{line['level']}", f"{line['nodes']:,}", f"{line['candidates']:,.1f}",
        f"{line['recall']:.2f}",
    )  # fmt: skip


def table(found: Mapping[str, Any]) -> list[str]:
    """The same as lines of text."""
    lines = [f"{found['texts']:,} texts", "", "member  level     nodes  candidates   recall"]
    for line in found["shortlists"]:
        member, level, nodes, candidates, recall = _cells(line)
        lines.append(f"{member:>6}  {level:>5}  {nodes:>8}  {candidates:>10}  {recall:>7}")
    for one in found["encoders"]:
        own = one["self_attention"]
        lines += ["", one["name"], "layer  entropy  to itself  at most  like the last"]
        columns = zip(one["entropy"], own["average"], own["maximum"], one["pwcca"][-1], strict=True)
        for layer, (entropy, average, most, like) in enumerate(columns, 1):
            lines.append(f"{layer:>5}  {entropy:>7.3f}  {average:>9.3f}  {most:>7.3f}  {like:>13.3f}")
    for pair in found["between"]:
        lines += ["", f"{pair['first']}, {pair['second']}: PWCCA of layers 1, 2, ..."]
        lines.append("  ".join(f"{value:.3f}" for value in pair["pwcca"]))
    return lines
