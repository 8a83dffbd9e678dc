"""Plain SVG for the documentation: panels with bars or lines; text stays text, and the picture follows light and dark.

Series are told apart by more than colour: the first is hollow or dashed, the second solid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import floor, log10

STYLE = """
.paper { fill: #ffffff; } text { font: 12px system-ui, "Segoe UI", Roboto, Arial, sans-serif; fill: #4d5953; }
.title { font-weight: 600; font-size: 13.5px; fill: #1b221e; } .small { font-size: 10.5px; }
.grid { stroke: #e2e7e1; } .spread { stroke: #1b221e; stroke-width: 1.2; }
.a { stroke: #2c66c4; fill: none; } .b { stroke: #1e7a4c; fill: none; } .bar.a { fill: #dbe6f8; }
.bar.b { fill: #1e7a4c; } .line { stroke-width: 2; stroke-linejoin: round; } .line.a { stroke-dasharray: 6 4; }
.dot { stroke-width: 1.6; } .dot.a { fill: #ffffff; } .dot.b { fill: #1e7a4c; }
@media (prefers-color-scheme: dark) {
.paper { fill: #18201b; } text { fill: #a9b6ae; } .title { fill: #e6ede8; } .grid { stroke: #2f3b34; }
.spread { stroke: #e6ede8; } .a { stroke: #78a9ff; } .b { stroke: #4fc487; } .bar.a { fill: #22324d; }
.bar.b { fill: #4fc487; } .dot.a { fill: #18201b; } .dot.b { fill: #4fc487; } }
"""
WIDTH, HEIGHT = 330, 250  # of a panel
LEFT, TOP, RIGHT = 46, 34, 12
HEAD = 66  # above the panels: what it shows, and the legend
LOOKS = ("a", "b")
NAME = 38  # characters of a panel's title
DOTS = 200  # points of a line


@dataclass(frozen=True)
class Bar:
    """A value, its spread (0: unknown) and what a pointer over it reads."""

    value: float
    spread: float = 0.0
    title: str = ""


@dataclass(frozen=True)
class Bars:
    """A panel of groups with a bar for each series; below a group stand its lines of text."""

    title: str
    groups: Sequence[Sequence[Bar]]
    below: Sequence[Sequence[str]]
    names: Sequence[str] = ()  # of the lines of text


@dataclass(frozen=True)
class Lines:
    """A panel with a line of (x, y) for each series; `ticks` are places on the x axis and their names."""

    title: str
    series: Sequence[Sequence[tuple[float, float]]]
    ticks: Sequence[tuple[float, str]]
    below: str = ""
    dots: bool = True


Panel = Bars | Lines


def picture(title: str, legend: Sequence[str], panels: Sequence[Panel]) -> str:
    """A whole SVG file: panels in rows of three; bars of all panels have one scale from 0, lines each their own."""
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    tops = [bar.value + bar.spread for p in panels if isinstance(p, Bars) for group in p.groups for bar in group]
    ticks = steps(0.0, max(tops, default=1.0))
    parts = []
    for i, panel in enumerate(panels):
        x, y = (i % columns) * WIDTH, HEAD + (i // columns) * HEIGHT
        drawn = _bars(panel, ticks) if isinstance(panel, Bars) else _lines(panel)
        parts.append(f'<g transform="translate({x} {y})">{drawn}</g>')
    width, height = columns * WIDTH, HEAD + rows * HEIGHT
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(title)}">\n<title>{escape(title)}</title>\n<style>{STYLE}</style>\n'
        f'<rect class="paper" width="{width}" height="{height}"/>\n'
        f'<text class="title" x="16" y="24">{escape(title)}</text>{_legend(legend, panels)}\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def steps(low: float, high: float, count: int = 4) -> list[float]:
    """Round numbers from at most `low` to at least `high`, about `count` apart."""
    if high <= low:
        high = low + 1.0
    rough = (high - low) / count
    power = 10.0 ** floor(log10(rough))
    step = next(size * power for size in (1, 2, 2.5, 5, 10) if size * power >= rough * 0.999)
    start = floor(low / step + 1e-9)
    ticks = [start * step]
    while ticks[-1] < high - 1e-9 * step:
        start += 1
        ticks.append(start * step)
    return [round(value, 10) for value in ticks]


def _legend(names: Sequence[str], panels: Sequence[Panel]) -> str:
    parts, x = [], 16
    bars = any(isinstance(panel, Bars) for panel in panels)
    for look, name in zip(LOOKS, names, strict=False):
        if bars:
            parts.append(f'<rect class="bar {look}" x="{x}" y="40" width="24" height="12"/>')
        else:
            parts.append(f'<line class="line {look}" x1="{x}" x2="{x + 30}" y1="46" y2="46"/>')
        parts.append(f'<text x="{x + 38}" y="50">{escape(name)}</text>')
        x += 38 + round(7.2 * len(name)) + 28
    return "".join(parts)


def _short(title: str) -> str:
    return escape(title if len(title) <= NAME else f"{title[: NAME - 1]}…")


def _axis(ticks: Sequence[float], bottom: float) -> str:
    parts = []
    for tick in ticks:
        at = _at(tick, ticks, bottom)
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
            f'<text class="small" x="{LEFT - 7}" y="{at + 4:.1f}" text-anchor="end">{tick:g}</text>'
        )
    return "".join(parts)


def _at(value: float, ticks: Sequence[float], bottom: float) -> float:
    return bottom - (bottom - TOP) * (value - ticks[0]) / (ticks[-1] - ticks[0])


def _bars(panel: Bars, ticks: Sequence[float]) -> str:
    bottom = HEIGHT - 16 - 15 * max((len(lines) for lines in panel.below), default=0)
    parts = [f'<text class="title" x="{LEFT}" y="18">{_short(panel.title)}</text>', _axis(ticks, bottom)]
    wide = (WIDTH - LEFT - RIGHT) / max(len(panel.groups), 1)
    for j, name in enumerate(panel.names):
        parts.append(f'<text class="small" x="{LEFT - 7}" y="{bottom + 16 + 15 * j}" text-anchor="end">{name}</text>')
    for i, (group, lines) in enumerate(zip(panel.groups, panel.below, strict=True)):
        bar = 0.8 * wide / max(len(group), 1)
        for j, (look, one) in enumerate(zip(LOOKS, group, strict=False)):
            x, y = LEFT + wide * (i + 0.1) + j * bar, _at(one.value, ticks, bottom)
            parts.append(
                f'<rect class="bar {look}" x="{x + 1:.1f}" y="{y:.1f}" width="{bar - 2:.1f}" '
                f'height="{bottom - y:.1f}"><title>{escape(one.title)}</title></rect>'
            )
            ends = [_at(one.value + side * one.spread, ticks, bottom) for side in (-1, 1)]
            middle = x + bar / 2
            if one.spread:
                parts.append(f'<path class="spread" d="M{middle:.1f} {ends[0]:.1f}V{ends[1]:.1f}"/>')
            label = f"{one.value:.1f}" if one.value < 9.95 else f"{one.value:.0f}"  # longer ones touch
            parts.append(
                f'<text class="small" x="{middle:.1f}" y="{ends[1] - 4:.1f}" text-anchor="middle">{label}</text>'
            )
        for j, line in enumerate(lines):
            place = f'x="{LEFT + wide * (i + 0.5):.1f}" y="{bottom + 16 + 15 * j}"'
            parts.append(f'<text class="small" {place} text-anchor="middle">{escape(line)}</text>')
    return "".join(parts)


def _lines(panel: Lines) -> str:
    bottom = HEIGHT - 46
    values = [y for line in panel.series for _, y in line]
    places = [x for line in panel.series for x, _ in line] + [x for x, _ in panel.ticks]
    ticks = steps(min(values, default=0.0), max(values, default=1.0))
    low, high = min(places, default=0.0), max(places, default=1.0)

    def across(x: float) -> float:
        return LEFT + 8 + (WIDTH - LEFT - RIGHT - 24) * (x - low) / ((high - low) or 1.0)

    parts = [f'<text class="title" x="{LEFT}" y="18">{_short(panel.title)}</text>', _axis(ticks, bottom)]
    for x, name in panel.ticks:
        place = f'x="{across(x):.1f}" y="{bottom + 17}"'
        parts.append(f'<text class="small" {place} text-anchor="middle">{escape(name)}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(
        f'<text class="small" x="{middle:.1f}" y="{bottom + 34}" text-anchor="middle">{escape(panel.below)}</text>'
    )
    for look, line in zip(LOOKS, panel.series, strict=False):
        kept = line if len(line) <= DOTS else [line[i * (len(line) - 1) // (DOTS - 1)] for i in range(DOTS)]
        points = [(across(x), _at(y, ticks, bottom), y) for x, y in kept]
        drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in points)
        parts.append(f'<polyline class="line {look}" points="{drawn}"/>')
        if panel.dots:
            parts += [_dot(look, x, y, value) for x, y, value in points]
    return "".join(parts)


def _dot(look: str, x: float, y: float, value: float) -> str:
    """A ring for the first series, a square for the second."""
    title = f"<title>{value:.2f}</title>"
    if look == "a":
        return f'<circle class="dot a" cx="{x:.1f}" cy="{y:.1f}" r="4">{title}</circle>'
    return f'<rect class="dot b" x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7">{title}</rect>'
