"""The curve of a training as HTML: what every stage took and its loss, and a chart where there are figures."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from treetop.core.curve import DOCUMENTS, Point
from treetop.evaluate.report import charts
from treetop.evaluate.report.page import section

BESIDE = ("stage", "epoch", "step", "seconds", "loss")  # what is not a figure in percent
NOTE = (
    "Figures after every epoch, on documents held out of training: those of the recipe's setting validation, or some "
    "of those kept apart. A line that falls in the end says that fewer epochs would do, one that still rises that more "
    "would help. Stages over clusters of labels count clusters."
)


def training_section(points: Sequence[Point]) -> str:
    """One chart for each stage of the training; "" where there is no curve."""
    stages: dict[str, list[Point]] = {}
    for point in points:
        if DOCUMENTS in point:  # of the learning curve
            continue
        stages.setdefault(point["stage"], []).append(point)
    body = "".join(_stage(name, stage) for name, stage in stages.items())
    return section("Training", NOTE, body) if body else ""


def _stage(name: str, points: Sequence[Point]) -> str:
    first, last = points[0], points[-1]
    title = f"{escape(name)}: {last['epoch']:g} epochs, {last['step']:,} steps"
    if all("seconds" in point for point in (first, last)):
        title += f", {last['seconds']:,.0f} s"
    if all("loss" in point for point in (first, last)):
        title += f", loss {first['loss']:.4g} → {last['loss']:.4g}"
    names = [key for key in last if key not in BESIDE][: charts.COLOURS]
    seen = [point for point in points if all(0 <= point.get(key, -1.0) <= 100 for key in names)]
    epochs = [point["epoch"] for point in seen]
    chart = ""
    if names and seen and epochs == sorted(set(epochs)):
        chart = charts.lines({key: [point[key] for point in seen] for key in names}, axis="epoch ", at=epochs)
    return f"<h3>{title}</h3>\n{chart}\n"
