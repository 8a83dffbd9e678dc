"""The table of languages: what the features of a text are worth in each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tools import records
from tools.docs.markdown import MISSING, markdown, text


def languages(results: Path, words: Sequence[str]) -> str:
    """`languages`: P@5 on test by default, as words, with stems and with the setting that is best on valid."""
    sets: dict[str, dict[str, records.Record]] = {}
    for values in records.usable(results / "languages.jsonl").values():
        sets.setdefault(values["data"]["name"], {})[values["features"]] = values
    rows = []
    for name, found in sorted(sets.items()):
        best = max(found.values(), key=lambda values: values["valid_mean"])
        default = found["default"]
        cells = [text(found[kind]["P@5"], 1) if kind in found else MISSING for kind in ("as words", "stems")]
        low, high = default["interval"]
        rows.append(
            [
                name,
                cells[0],
                f"{text(default['P@5'], 1)} ({text(low, 1)} to {text(high, 1)})",
                cells[1],
                best["features"],
                text(best["P@5"], 1),
                text(best["valid_mean"] - default["valid_mean"], 1),
            ]
        )
    head = ["data set", "as words", "default (95 %)", "stems", "best on valid", "its P@5", "ahead on valid"]
    return markdown(head, rows)
