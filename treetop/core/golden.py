"""Golden inputs: a few texts and what the model answered when it was saved, one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from treetop.core.errors import ModelError
from treetop.core.sealed import parse

FILE = "golden.jsonl"


def to_lines(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Rows with `text`, `ids` and `scores` as lines."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def from_lines(raw: bytes, file: Path) -> list[dict[str, Any]]:
    """What `to_lines` wrote, checked. Only LF ends a line: texts and ids may hold any other line break."""
    rows = []
    for number, line in enumerate(raw.removesuffix(b"\n").split(b"\n") if raw else [], 1):
        try:
            row = parse(line)
        except ValueError:
            row = None
        if not _sound(row):
            raise ModelError(
                f'{file}:{number}: expected {{"text": ..., "ids": [...], "scores": [...]}} with a score for each id. '
                "The file is damaged; copy the model again."
            )
        rows.append(row)
    return rows


def _sound(row: Any) -> bool:
    return (
        isinstance(row, dict)
        and isinstance(row.get("text"), str)
        and all(isinstance(row.get(name), list) for name in ("ids", "scores"))
        and len(row["ids"]) == len(row["scores"])
        and all(isinstance(id_, str) for id_ in row["ids"])
        and all(type(score) in (int, float) for score in row["scores"])
    )
