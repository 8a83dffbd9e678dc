"""How good on each label: right, wrong and missed among the first five, as rows or as a file."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from treetop.core.errors import InputError
from treetop.core.spreadsheet import plain_cell
from treetop.core.target import replacing_file
from treetop.evaluate.match import Matches

SUFFIXES = (".csv", ".tsv", ".jsonl")
COLUMNS = ("id", "name", "train_count", "test_positives", "tp@5", "fp@5", "fn@5", "precision", "recall", "F1")


def label_rows(matches: Matches, columns: Iterable[int] | None = None) -> Iterator[dict[str, Any]]:
    """One row (keys `COLUMNS`, rates in percent) per label that is true or predicted somewhere, or of `columns`."""
    right, predicted, positives = matches.correct(5), matches.predicted(5), matches.positives
    for column in np.flatnonzero(predicted + positives).tolist() if columns is None else columns:
        hits, shown, true = int(right[column]), int(predicted[column]), int(positives[column])
        yield {
            "id": matches.labels.ids[column],
            "name": matches.labels.names[column],
            "train_count": int(matches.counts[column]),
            "test_positives": true,
            "tp@5": hits,
            "fp@5": shown - hits,
            "fn@5": true - hits,
            "precision": 100.0 * hits / max(shown, 1),
            "recall": 100.0 * hits / max(true, 1),
            "F1": 200.0 * hits / max(shown + true, 1),
        }


def extremes(matches: Matches, n: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of the `n` best and the `n` worst labels by F1; the more often tested one first among equals.

    Labels tested fewer than five times are left out while enough others remain: their F1 is mostly luck.
    """
    positives = matches.positives
    fair = np.flatnonzero(positives >= 5)
    columns = fair if len(fair) >= 2 * n else np.flatnonzero(positives > 0)
    n = min(n, (len(columns) + 1) // 2)  # no label is among the best and the worst
    f1 = 2.0 * matches.correct(5)[columns] / (matches.predicted(5) + positives)[columns]
    best = columns[np.lexsort((columns, -positives[columns], -f1))[:n]]
    worst = columns[np.lexsort((columns, -positives[columns], f1))[: min(n, len(columns) - n)]]
    return list(label_rows(matches, best.tolist())), list(label_rows(matches, worst.tolist()))


def check_target(path: Path) -> None:
    """Refuse a file name with an unknown suffix, before any work is done."""
    if path.suffix not in SUFFIXES:
        raise InputError(f"{path}: unknown ending '{path.suffix}' for the label report. Use {', '.join(SUFFIXES)}.")


def write_labels(matches: Matches, path: Path) -> int:
    """Write the rows as CSV, TSV or JSON lines by the name's ending; returns how many."""
    check_target(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing_file(path) as file:
        return _write_rows(matches, file, path.suffix)


class _Lines:
    """A file whose CSV rows end in LF; the writer is given CRLF so that it quotes both characters."""

    def __init__(self, file: TextIO) -> None:
        self.file = file

    def write(self, row: str) -> None:
        self.file.write(row.removesuffix("\r\n") + "\n")


def _write_rows(matches: Matches, file: TextIO, suffix: str) -> int:
    table = csv.DictWriter(_Lines(file), COLUMNS, delimiter="\t" if suffix == ".tsv" else ",", lineterminator="\r\n")
    if suffix != ".jsonl":
        table.writeheader()
    written = 0
    for row in label_rows(matches):
        if suffix == ".jsonl":
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
        else:
            table.writerow(row | {"name": plain_cell(row["name"])})
        written += 1
    return written
