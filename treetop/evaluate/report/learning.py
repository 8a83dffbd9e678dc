"""Scores against the number of training documents, from the trials of `auto` (`core/curve.py`), as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from treetop.core.curve import DOCUMENTS, Point
from treetop.evaluate.report import charts
from treetop.evaluate.report.page import section

FIGURES = ("P@1", "P@5")
NOTE = (
    "What recipes reached on samples of the training documents before this model was trained, judged on other training "
    "documents. Where a line still rises at its end, more documents would help more than another recipe."
)


def learning_section(points: Sequence[Point]) -> str:
    """One chart for each recipe that was tried on two samples or more; "" where there is none."""
    recipes: dict[str, list[Point]] = {}
    for point in points:
        if DOCUMENTS in point and all(0 <= point.get(name, -1.0) <= 100 for name in FIGURES):
            recipes.setdefault(point["stage"], []).append(point)
    body = "".join(_recipe(name, tried) for name, tried in recipes.items())
    return section("Learning curve", NOTE, body) if body else ""


def _recipe(name: str, points: Sequence[Point]) -> str:
    sizes = [point[DOCUMENTS] for point in points]
    if len(points) < 2 or sizes != sorted(set(sizes)):
        return ""
    first, last = points[0], points[-1]
    title = f"{escape(name)}: P@1 {first['P@1']:.1f} → {last['P@1']:.1f}"
    title += f" from {first[DOCUMENTS]:,} to {last[DOCUMENTS]:,} documents"
    series = {figure: [point[figure] for point in points] for figure in FIGURES}
    return f"<h3>{title}</h3>\n{charts.lines(series, axis='documents ', at=sizes)}\n"
