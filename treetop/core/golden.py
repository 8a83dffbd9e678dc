"""Golden inputs: a few texts and the model's answers when it was saved, one JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from treetop.core.errors import ModelError
from treetop.core.sealed import parse
from treetop.core.texts import Texts

FILE = "golden.jsonl"
TEXTS, LENGTH, DEPTH = 8, 300, 5  # texts, their characters and labels of an answer at most


def sample(texts: Texts) -> list[str]:
    """A few of these texts, cut short."""
    rows = np.linspace(0, len(texts) - 1, min(TEXTS, len(texts))).astype(np.int64)
    return [text[:LENGTH] for text in texts.take(rows)]


def rows_of(texts: Sequence[str], answers: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    """Texts with the labels a model answered."""
    return [
        {"text": text, "ids": [label.id for label in row], "scores": [label.score for label in row]}
        for text, row in zip(texts, answers, strict=True)
    ]


def check(rows: Sequence[Mapping[str, Any]], answer: Callable[[list[str]], Sequence[Sequence[Any]]]) -> None:
    """Refuse a model whose answers have changed; scores may differ by 1e-4."""
    texts = [str(row["text"]) for row in rows]
    for row, now in zip(rows, rows_of(texts, answer(texts)) if rows else (), strict=True):
        if now["ids"] != row["ids"] or not np.allclose(now["scores"], row["scores"], atol=1e-4):
            raise ModelError(
                f"golden input {row['text'][:40]!r}: the model answers {now['ids']}, it was saved answering "
                f"{row['ids']}. The library versions differ or the hardware is faulty; train again."
            )


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
