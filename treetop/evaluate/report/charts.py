"""Small charts as inline SVG; colours come from the page's style, so they follow light and dark mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise

WIDTH, HEIGHT = 860, 380
LEFT, RIGHT, TOP, BOTTOM = 44, 128, 14, 40
INSIDE = "inside"  # id of the area that dashed lines stay in
TICKS = 20  # names below an axis
COLOURS = 4  # of solid lines


def lines(
    series: Mapping[str, Sequence[float]], dashed: Sequence[str] = (), axis: str = "k = ", at: Sequence[float] = ()
) -> str:
    """A line chart in percent over 1, 2, ... or the places `at`, which `axis` names.

    Each line is named at its right end; `dashed` ones are drawn grey.
    """
    # a dashed bound may be clipped at the top: only its end must be visible
    most = max(value for name, values in series.items() for value in (values[-1:] if name in dashed else values))
    ceiling = next(c for c in (2, 4, 8, 20, 40, 60, 80, 100) if most <= c or c == 100)
    count = max(len(values) for values in series.values())
    at = at or range(1, count + 1)
    x = [LEFT + (WIDTH - LEFT - RIGHT) * (place - at[0]) / ((at[-1] - at[0]) or 1) for place in at]

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / ceiling)

    few = range(0, count, -(-count // TICKS))  # named places
    names = {x[i]: f"{axis if i == 0 else ''}{at[i]:g}" for i in few}
    parts = []
    if dashed:
        parts = [f'<clipPath id="{INSIDE}"><rect y="{TOP - 3}" width="{WIDTH}" height="{HEIGHT}"/></clipPath>']
    parts += [_axes(names, y(0), [(ceiling * i / 4, y(ceiling * i / 4)) for i in range(5)])]
    solid = [name for name in series if name not in dashed]
    label_ys = _apart([y(values[-1]) for values in series.values()], 19)
    for (name, values), label_y in zip(series.items(), label_ys, strict=True):
        style = "dashed" if name in dashed else f"s{solid.index(name)}"
        points = " ".join(f"{a:.1f},{y(b):.1f}" for a, b in zip(x, values, strict=True))
        clip = f' clip-path="url(#{INSIDE})"' if name in dashed else ""
        parts.append(f'<polyline class="line {style}" points="{points}"{clip}/>')
        for place, a, b in zip(at, x, values, strict=True):
            title = f"<title>{escape(name)} at {place:g}: {b:.2f}</title>"
            if b <= ceiling:
                parts.append(f'<circle class="dot {style}" cx="{a:.1f}" cy="{y(b):.1f}" r="3.5">{title}</circle>')
        label = f"{escape(name)} <tspan>{values[-1]:.1f}</tspan>"
        parts.append(f'<text class="end {style}" x="{x[-1] + 12:.1f}" y="{label_y + 5:.1f}">{label}</text>')
    return f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Curves">{"".join(parts)}</svg>'


def plane(x: Sequence[float], y: Sequence[float], titles: tuple[str, str], *, diagonal: bool = False) -> str:
    """Points (percent, percent) joined by a line over the whole range from 0 to 100; `titles` name both axes."""
    side, left, top = 320, 56, 12

    def at(a: float, b: float) -> tuple[float, float]:
        return left + side * a / 100, top + side * (1 - b / 100)

    parts = []
    for tick in range(0, 101, 20):
        (a, _), (_, b) = at(tick, 0), at(0, tick)
        parts.append(f'<line class="grid" x1="{left}" x2="{left + side}" y1="{b:.1f}" y2="{b:.1f}"/>')
        parts.append(f'<text class="tick" x="{left - 8}" y="{b + 4:.1f}" text-anchor="end">{tick}</text>')
        parts.append(f'<text class="tick" x="{a:.1f}" y="{top + side + 20}" text-anchor="middle">{tick}</text>')
    if diagonal:
        parts.append(f'<line class="line dashed" x1="{left}" y1="{top + side}" x2="{left + side}" y2="{top}"/>')
    places = [at(a, b) for a, b in zip(x, y, strict=True)]
    parts.append(f'<polyline class="line s0" points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in places)}"/>')
    for (a, b), p, q in zip(places, x, y, strict=True):
        title = f"<title>{escape(titles[0])} {p:.1f}, {escape(titles[1])} {q:.1f}</title>"
        parts.append(f'<circle class="dot s0" cx="{a:.1f}" cy="{b:.1f}" r="3">{title}</circle>')
    middle = left + side / 2
    parts.append(f'<text x="{middle:.0f}" y="{top + side + 42}" text-anchor="middle">{escape(titles[0])}</text>')
    turned = f'transform="rotate(-90 14 {top + side / 2:.0f})" text-anchor="middle"'
    parts.append(f'<text x="14" y="{top + side / 2:.0f}" {turned}>{escape(titles[1])}</text>')
    box = f"0 0 {left + side + 20} {top + side + 50}"
    name = escape(" and ".join(titles))
    return f'<svg class="plane" viewBox="{box}" role="img" aria-label="{name}">{"".join(parts)}</svg>'


def bar(value: float, ceiling: float) -> str:
    """A horizontal bar for a table cell."""
    width = 100 * min(max(value / ceiling, 0), 1) if ceiling > 0 else 0
    return (
        '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="track" width="100" height="8"/><rect class="fill" width="{width:.2f}" height="8"/></svg>'
    )


def gauge(value: float, interval: tuple[float, float] | None) -> str:
    """A bar from 0 to 100 with its interval in a lighter shade."""
    spread = ""
    if interval is not None:
        low, high = interval
        spread = f'<rect class="spread" x="{low:.2f}" width="{max(high - low, 0.6):.2f}" height="6"/>'
    return (
        '<svg class="gauge" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="track" width="100" height="6"/><rect class="fill" width="{value:.2f}" height="6"/>{spread}</svg>'
    )


def _axes(names: Mapping[float, str], floor: float, ticks: Sequence[tuple[float, float]]) -> str:
    parts = [
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
        f'<text class="tick" x="{LEFT - 10}" y="{at + 4:.1f}" text-anchor="end">{value:g}</text>'
        for value, at in ticks
    ]
    parts += [
        f'<text class="tick" x="{at:.1f}" y="{floor + 22:.1f}" text-anchor="middle">{name}</text>'
        for at, name in names.items()
    ]
    return "".join(parts)


def _apart(places: Sequence[float], gap: float) -> list[float]:
    """Label positions moved apart so that none overlaps another and the lowest stays above the axis."""
    order = sorted(range(len(places)), key=places.__getitem__)
    spread = list(places)
    for above, below in pairwise(order):
        spread[below] = max(spread[below], spread[above] + gap)
    floor = float(HEIGHT - BOTTOM)
    for i in reversed(order):
        spread[i] = min(spread[i], floor)
        floor = spread[i] - gap
    return spread
