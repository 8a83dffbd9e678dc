"""What `auto` chooses and reaches within a budget, beside the best single recipe that fits, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tools import records
from tools.docs.markdown import MISSING, markdown, text

AUTO = "auto "
SCORES = ("P@1", "P@5", "PSP@5")


def auto(results: Path, words: Sequence[str]) -> str:
    """`auto`: a row for each data set and time budget, on test rows."""
    cells: dict[str, list[records.Record]] = {}
    for values in records.usable(results / "auto.jsonl").values():
        cells.setdefault(values["data"], []).append(values)
    rows = []
    for data, found in sorted(cells.items()):
        for values in sorted(found, key=_budget):
            if values["what"].startswith(AUTO):
                rows.append(_row(data, values, found))
    head = ["training texts", "budget", "taken", "chosen", "P@1 / P@5 / PSP@5", "best other", "its P@1 / P@5 / PSP@5"]
    return markdown([*head, "P@1 of the best"], rows)


def _budget(values: records.Record) -> float:
    """Seconds of a cell of `auto`, 0 for other recipes."""
    return float(values["what"].split()[1]) if values["what"].startswith(AUTO) else 0.0


def _row(data: str, values: records.Record, found: Sequence[records.Record]) -> list[str]:
    name, _, rows = data.partition(":")
    shown = f"{name}, {int(rows):,}" if rows else name
    cell = [shown, f"{_budget(values):.0f} s", f"{text(values['seconds'], 0)} s"]
    if "P@1" not in values:
        return [*cell, values["problem"], *[MISSING] * 4]
    others = [
        other for other in found
        if other is not values and "P@1" in other and other["seconds"] <= _budget(values)
        and _budget(other) < _budget(values)
    ]  # fmt: skip
    own = [values["chosen"], _scores(values)]
    if not others:
        return [*cell, *own, *[MISSING] * 3]
    best = max(others, key=lambda other: other["P@1"])
    return [*cell, *own, best["what"], _scores(best), f"{100 * values['P@1'] / best['P@1']:.0f} %"]


def _scores(values: records.Record) -> str:
    return " / ".join(text(values[score], 1) for score in SCORES)
