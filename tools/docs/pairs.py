"""The same recipe with and without Gandalf, side by side, from the lines `benchmarks/gpu/recipe.py` writes.

Two runs are a pair when recipe, data, split and all settings but Gandalf's agree, and Gandalf's are the defaults; what
a plan calls them does not count. Runs of one seed are averaged first; ± is the standard deviation over seeds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from tools.docs.markdown import MISSING, markdown
from tools.docs.runs import Run, select
from treetop.augment.compose import current_names
from treetop.core.errors import InputError, choose

NAME = "gandalf"
SCORES = (*((name, name) for name in ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5")), ("rare R@10", "rare_R@10"))
ALL = (*SCORES, ("rare C@10", "rare_C@10"))
PLAIN = "no augmentation"
COSTS = (
    ("GPU GiB", "memory", 2.0**30), ("training s", "train_s", 1.0), ("fit s", "fit_s", 1.0),
    ("model MB", "model_bytes", 1e6), ("one text ms", "one_text_ms", 1.0), ("a text of a batch ms", "batch_ms", 1.0),
)  # fmt: skip
METRICS = ("P@5_share", "R@10", "C@10")  # of a bin
Figures = dict[int, float]  # seed -> figure
Reader = Callable[[Run], float | None]


@dataclass(frozen=True)
class Pair:
    """Runs of a recipe without and with Gandalf."""

    title: str  # the recipe, and its settings where they are not the defaults
    base: Sequence[Run]
    more: Sequence[Run]


def paired(runs: Iterable[Run]) -> list[Pair]:
    """Pairs by name; runs without a partner are left out, and those marked `past`, of code that has changed since."""
    found: dict[str, tuple[list[Run], list[Run]]] = {}
    for run in runs:
        title, more, own = read_name(run)
        if more is not None and is_default(own):
            found.setdefault(title, ([], []))[more].append(run)
    return [Pair(title, *both) for title, both in sorted(found.items()) if all(both)]


def augmented(results: Path, words: Sequence[str]) -> str:
    """`augmented FILE DATA SPLIT RECIPE`: a recipe under every augmentation, and in brackets the gain over none.

    Other settings are the same in all rows: those under which most augmentations ran together with the plain recipe.
    """
    if len(words) != 4:
        raise InputError("table augmented: give a file, a data set, a split and a recipe.")
    file, data, split, recipe = words
    found: dict[tuple[str, ...], dict[str, list[Run]]] = {}  # other settings -> augmentation -> runs
    for run in select(results, file, data, split):
        *before, name = str(run["recipe"]).split("+")
        if name == recipe and run["section"] == "recipe" and not run.get("past"):
            settings = current_names(str(run["recipe"]), run.get("settings") or {})
            own = [part for one in before for part in _shown(settings.pop(one, {}))]
            title = ", ".join(["+".join(before) or PLAIN, *own])
            found.setdefault(tuple(_shown(settings)), {}).setdefault(title, []).append(run)
    whole = [(key, rows) for key, rows in found.items() if PLAIN in rows and len(rows) > 1]
    if not whole:
        raise InputError(f"table augmented: {file} has no augmentations of '{recipe}' for '{data} {split}'.")
    settings_, rows = max(whole, key=lambda item: len(item[1]))
    base = rows.pop(PLAIN)
    made = []
    for title, runs in [(", ".join([recipe, *settings_]), base), *sorted(rows.items())]:
        cells = [_gain(by_seed(base, figure(key)), by_seed(runs, figure(key)), runs is base) for _, key in ALL]
        made.append([title, *cells, str(len({run.get("seed", 0) for run in runs}))])
    return markdown(["learned from", *(title for title, _ in ALL), "seeds"], made)


def _gain(base: Figures, more: Figures, plain: bool) -> str:
    gain = middle(differences(base, more))
    return _cell(middle(more)) + (f" ({gain[0]:+.2f})" if gain and not plain else "")


def read_name(run: Run) -> tuple[str, bool | None, dict[str, Any]]:
    """Recipe with its settings, whether Gandalf alone stands before it (None: not to be compared), Gandalf's own."""
    *before, recipe = str(run["recipe"]).split("+")
    settings = current_names(str(run["recipe"]), run.get("settings") or {})
    own = dict(settings.pop(NAME, {}))
    whole = run["section"] == "recipe" and before in ([], [NAME]) and not run.get("past")
    return ", ".join([recipe, *_shown(settings)]), bool(before) if whole else None, own


def is_default(settings: dict[str, Any]) -> bool:
    """Whether settings of Gandalf change nothing."""
    from treetop.core import registry

    usual = vars(registry.find("augment", NAME).Config())
    return all(usual.get(key) == value for key, value in settings.items())


def _shown(settings: dict[str, Any], before: str = "") -> list[str]:
    made = []
    for key, value in sorted(settings.items()):
        if isinstance(value, dict):
            made += _shown(value, f"{before}{key}.")
        else:
            made.append(f"{before}{key}={value if isinstance(value, str) else json.dumps(value)}")
    return made


def by_seed(runs: Sequence[Run], read: Reader) -> Figures:
    """Seed -> mean of a figure over its runs."""
    found: dict[int, list[float]] = {}
    for run in runs:
        value = read(run)
        if value is not None:
            found.setdefault(int(run.get("seed", 0)), []).append(value)
    return {seed: mean(values) for seed, values in sorted(found.items())}


def middle(figures: Figures) -> tuple[float, float] | None:
    """Mean and standard deviation over seeds (0 of a single one)."""
    values = list(figures.values())
    return (mean(values), stdev(values) if len(values) > 1 else 0.0) if values else None


def figure(key: str, unit: float = 1.0) -> Reader:
    """Reads a figure of a run."""

    def read(run: Run) -> float | None:
        value = run.get(key)
        return float(value) / unit if isinstance(value, int | float) else None

    return read


def volume(i: int, metric: str) -> Reader:
    """Reads a figure of the i-th of five bins that hold as many label occurrences each; 0 is the most frequent."""

    def read(run: Run) -> float | None:
        found = volumes(run)
        return float(found[i][metric]) if i < len(found) else None

    return read


def volumes(run: Run) -> list[dict[str, Any]]:
    """The five bins of a run, most frequent labels first."""
    return [row for row in run.get("bins", ()) if row["cut"] == "volume"]


def gandalf(results: Path, words: Sequence[str]) -> str:
    """`gandalf FILE DATA SPLIT [scores|costs|bins [METRIC]]`: each recipe without and with Gandalf, and the difference.

    A difference of scores is bold where the 95 % intervals of both sides lie apart in every seed that has them.
    """
    if len(words) < 3:
        raise InputError("table gandalf: give a file, a data set and a split, such as gandalf-h200 wordnet test.")
    file, data, split, *rest = words
    kind = choose("table gandalf: kind", rest[0] if rest else "scores", ("scores", "costs", "bins"), InputError)
    pairs = paired(select(results, file, data, split))
    if not pairs:
        raise InputError(f"table gandalf: {file} has no recipe with and without {NAME} for '{data} {split}'.")
    if kind == "bins":
        columns = _bins(pairs, rest[1] if len(rest) > 1 else "P@5_share")
    elif kind == "costs":
        columns = [(title, figure(key, unit), "") for title, key, unit in COSTS]
    else:
        columns = [(title, figure(key), key) for title, key in SCORES]
    rows = [row for pair in pairs for row in _rows(pair, columns, relative=kind == "costs")]
    return markdown(["recipe", *(title for title, _, _ in columns), "seeds"], rows)


def _bins(pairs: Sequence[Pair], metric: str) -> list[tuple[str, Reader, str]]:
    choose("table gandalf: metric", metric, METRICS, InputError)
    first = next((bins for pair in pairs for run in pair.base if (bins := volumes(run))), [])
    made = []
    for i, row in enumerate(first):
        title = f"bin {i + 1}: {row['labels']:,} labels, {spanned(row['train_counts'])} texts"
        made.append((title, volume(i, metric), ""))
    return made


def spanned(counts: Sequence[int]) -> str:
    """The least and the most texts of a label in a bin."""
    return "–".join(f"{count:,}" for count in sorted(set(counts)))


def _rows(pair: Pair, columns: Sequence[tuple[str, Reader, str]], *, relative: bool) -> list[list[str]]:
    base, more, gain = [pair.title], [f"+ {NAME}"], ["*difference*"]
    for _, read, key in columns:
        a, b = by_seed(pair.base, read), by_seed(pair.more, read)
        base.append(_cell(middle(a)))
        more.append(_cell(middle(b)))
        if relative:
            gain.append(_percent(middle(a), middle(b)))
        else:
            apart = bool(key) and _apart(pair, key)
            made = _cell(middle(differences(a, b)), "+")
            gain.append(f"**{made}**" if apart else made)
    counts = [len({run.get("seed", 0) for run in runs}) for runs in (pair.base, pair.more)]
    return [[*base, str(counts[0])], [*more, str(counts[1])], [*gain, ""]]


def differences(base: Figures, more: Figures) -> Figures:
    """Seed -> gain; where the sides share no seed, the gain of the means."""
    both = sorted(base.keys() & more.keys())
    if both:
        return {seed: more[seed] - base[seed] for seed in both}
    return {0: mean(more.values()) - mean(base.values())} if base and more else {}


def _apart(pair: Pair, key: str) -> bool:
    """Whether no interval of one side touches one of the other for the same seed."""
    found = []
    for a in pair.base:
        for b in pair.more:
            if a.get("seed", 0) == b.get("seed", 0):
                sides = [run.get("intervals", {}).get(key) for run in (a, b)]
                found += [sides] if all(sides) else []
    above = [b[0] > a[1] for a, b in found]
    below = [b[1] < a[0] for a, b in found]
    return bool(found) and (all(above) or all(below))


def _cell(value: tuple[float, float] | None, sign: str = "") -> str:
    if value is None:
        return MISSING
    middle_, spread = value
    return f"{middle_:{sign},.2f}" + (f" ± {spread:.2f}" if spread else "")


def _percent(base: tuple[float, float] | None, more: tuple[float, float] | None) -> str:
    if base is None or more is None or not base[0]:
        return MISSING
    return f"{100 * (more[0] / base[0] - 1):+.1f} %"
