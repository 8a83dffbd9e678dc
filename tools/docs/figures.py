"""Figures of the documentation as SVG, drawn from records; a figure whose runs have no record is not drawn.

| file in docs/figures | shows |
|---|---|
| `gandalf-bins-DATA.svg` | what bins of frequent to rare labels add to P@5, without and with Gandalf |
| `gandalf-recall-DATA.svg` | R@10 of these bins |
| `gandalf-rows-RECIPE-DATA.svg` | scores over the share of labels whose texts are learned from, two orders |
| `gandalf-loss-DATA.svg` | loss over steps, without and with Gandalf |
| `gandalf-steps-DATA.svg` | P@1 and PSP@5 on held-out documents over steps |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from tools.docs.drawing import Bar, Bars, Lines, Panel, picture, steps
from tools.docs.pairs import (
    NAME,
    Pair,
    by_seed,
    figure,
    is_default,
    middle,
    paired,
    read_name,
    volume,
    volumes,
)
from tools.docs.runs import Run, lines

FILE = "gandalf-h200"
SHOWN = (("P@1", "P@1"), ("PSP@5", "PSP@5"), ("R@10 of labels with 1 to 5 texts", "rare_R@10"))
PARTS = ("test", "held-out")  # of a data set; trials use the second
SIDES = ("without", f"with {NAME}")


def figures(results: Path) -> dict[str, str]:
    """File name -> SVG of every figure there are records for."""
    file = results / "gpu" / f"{FILE}.jsonl"
    runs = list(lines(file)) if file.exists() else []
    drawn = {}
    for data in dict.fromkeys(run["data"] for run in runs if "data" in run):
        tested, held = ([r for r in runs if (r.get("data"), r.get("on")) == (data, part)] for part in PARTS)
        first, second = paired(tested), paired(held)
        pairs, title = first or second, f"{data}, {PARTS[0 if first else 1]}"
        drawn[f"gandalf-bins-{data}.svg"] = bins(pairs, f"{title}: what bins of labels add to P@5", "P@5_share")
        drawn[f"gandalf-recall-{data}.svg"] = bins(pairs, f"{title}: R@10 by bins of labels", "R@10")
        drawn[f"gandalf-loss-{data}.svg"] = losses(pairs, data)
        drawn[f"gandalf-steps-{data}.svg"] = progress([*first, *second], data)
        for recipe in dict.fromkeys(str(run["recipe"]).split("+")[-1] for run in held):
            drawn[f"gandalf-rows-{recipe}-{data}.svg"] = rows(held, recipe, f"{data}, {PARTS[1]}")
    return {name: svg for name, svg in drawn.items() if svg}


def bins(pairs: Sequence[Pair], title: str, metric: str) -> str:
    """Figure 1.3: a panel for each recipe, five bins of equal volume, most frequent labels first."""
    panels: list[Panel] = []
    for pair in pairs:
        first = next((found for run in pair.base if (found := volumes(run))), [])
        if first and all(volumes(run) for run in (*pair.base, *pair.more)):
            sides = list(zip((pair.base, pair.more), SIDES, strict=True))
            groups = [[_bar(runs, side, i, metric) for runs, side in sides] for i in range(len(first))]
            below = [
                [f"{i + 1}", f"{row['labels']:,}", _short(row["train_counts"]), f"{more.value - base.value:+.2f}"]
                for i, (row, (base, more)) in enumerate(zip(first, groups, strict=True))
            ]
            panels.append(Bars(pair.title, groups, below, ("bin", "labels", "texts", "gain")))
    return picture(title, SIDES, panels) if panels else ""


def _short(counts: Sequence[int]) -> str:
    """The least and the most texts of a label in a bin, as wide as its bars."""
    return "–".join(
        f"{n:,}" if n < 1000 else f"{n / 1000:.2g}k" if n < 9950 else f"{n / 1000:.0f}k" for n in sorted(set(counts))
    )


def _bar(runs: Sequence[Run], side: str, i: int, metric: str) -> Bar:
    value, spread = middle(by_seed(runs, volume(i, metric))) or (0.0, 0.0)
    return Bar(value, spread, f"bin {i + 1}, {side}: {value:.2f}" + (f" ± {spread:.2f}" if spread else ""))


def rows(runs: Sequence[Run], recipe: str, data: str) -> str:
    """Figure 1.4 c, d: scores over the share of labels, any first and the rarest first; both begin and end alike."""
    found: dict[str, dict[str, dict[float, list[Run]]]] = {}  # settings -> order -> share -> runs
    for run in runs:
        title, more, own = read_name(run)
        share, order = (own.pop("label_fraction", 1.0), own.pop("label_order", "random")) if more else (0.0, "random")
        if more is not None and is_default(own) and title.split(", ")[0] == recipe:
            lines_ = found.setdefault(title, {"random": {}, "tail": {}})
            for name in lines_ if share in (0.0, 1.0) else (order,):
                lines_[name].setdefault(share, []).append(run)
    whole = [t for t, orders in found.items() if all(any(0 < x < 1 for x in shares) for shares in orders.values())]
    if not whole:
        return ""
    ticks = [(25.0 * i, f"{25 * i} %") for i in range(5)]
    panels = []
    for title, key in SHOWN:
        series = [_along(shares, key) for shares in found[whole[0]].values()]
        panels.append(Lines(title, series, ticks, "labels whose texts are learned from"))
    return picture(f"{whole[0]} on {data}: fewer label texts", ("any labels", "the rarest first"), panels)


def _along(found: dict[float, list[Run]], key: str) -> list[tuple[float, float]]:
    points = []
    for share, runs in sorted(found.items()):
        value = middle(by_seed(runs, figure(key)))
        if value is not None:
            points.append((100.0 * share, value[0]))
    return points


def losses(pairs: Sequence[Pair], data: str) -> str:
    """Loss over steps, a panel for each recipe and training; the first run of a side that kept its losses counts."""
    panels: list[Panel] = []
    for pair in pairs:
        found = _kept(pair, "curve")
        if all(found):
            trainings = [list(_trainings(curve)) for curve in found]
            for i, both in enumerate(zip(*trainings, strict=False), start=1):
                name = f"{pair.title}, training {i}" if len(trainings[0]) > 1 else pair.title
                panels.append(Lines(name, both, _until(both), "steps", dots=False))
    return picture(f"{data}: loss over steps (with {NAME} also that of label texts)", SIDES, panels) if panels else ""


def progress(pairs: Sequence[Pair], data: str) -> str:
    """Figure 1.4 a, b: scores of documents that training held out, after every epoch."""
    panels: list[Panel] = []
    for pair in pairs:
        found = _kept(pair, "points")
        if all(found):
            for i, name in enumerate(("P@1", "PSP@5"), start=1):
                both = [[(float(point[0]), float(point[i])) for point in points] for points in found]
                recipe = pair.title.split(", ")[0]  # what holds documents out is the same in all
                panels.append(Lines(f"{recipe}, {name}", both, _until(both), "steps"))
    return picture(f"{data}: scores of held-out documents over steps", SIDES, panels) if panels else ""


def _kept(pair: Pair, key: str) -> list[Sequence[Sequence[float]]]:
    """What the first run of each side that kept such numbers has; nothing where none did."""
    return [next((run[key] for run in runs if run.get(key)), ()) for runs in (pair.base, pair.more)]


def _until(series: Sequence[Sequence[tuple[float, float]]]) -> list[tuple[float, str]]:
    last = max(line[-1][0] for line in series)
    return [(step, f"{step:,.0f}") for step in steps(0.0, last, 3) if step <= last]


def _trainings(curve: Sequence[Sequence[float]]) -> Iterable[list[tuple[float, float]]]:
    """Trainings that follow each other begin again at step 1."""
    starts = [0, *(i for i, (a, b) in enumerate(pairwise(curve), start=1) if b[0] < a[0]), len(curve)]
    for start, stop in pairwise(starts):
        yield [(float(step), float(loss)) for step, loss in curve[start:stop]]
