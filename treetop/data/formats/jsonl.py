"""JSON lines, one object per row: the native format, which can hold everything."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from treetop.core.dataset import ROLES, Dataset
from treetop.data import sidecar
from treetop.data.format import CONTENT, Format, Head, Writing
from treetop.data.parse.fields import to_row
from treetop.data.parse.json_text import json_lines
from treetop.data.parse.lines import writer
from treetop.data.parse.rows import Reading, Row, each_row


def rows(file: Path, reading: Reading) -> Iterator[Row]:
    """Rows of a JSON lines file."""
    return each_row(json_lines(file, reading.problem), to_row, file, reading)


def sniff(head: Head) -> bool:
    """Whether the first line opens an object."""
    return head.line.lstrip().startswith("{")


def row_records(data: Dataset) -> Iterator[dict[str, Any]]:
    """Rows as plain records, with every field the data has."""
    ids = list(data.labels.ids)
    Y, relevance = data.Y, data.relevance
    soft = bool((Y.data != 1).any())
    starts = Y.indptr.tolist()
    for i, text in enumerate(data.texts):
        span = slice(starts[i], starts[i + 1])
        record: dict[str, Any] = {"text": text, "labels": [ids[j] for j in Y.indices[span].tolist()]}
        if data.ids is not None:
            record["id"] = data.ids[i]
        if soft:
            record["targets"] = Y.data[span].tolist()
        if relevance is not None:
            record["relevance"] = relevance.data[span].tolist()
        if data.roles is not None:
            record["role"] = ROLES[data.roles[i]]
        yield record


def write(writing: Writing) -> None:
    """The native folder: train.jsonl, test.jsonl, labels.jsonl, filter.jsonl, dataset.json."""
    for split, data in writing.splits.items():
        with writer(writing.file(f"{split}.jsonl")) as out:
            for i, record in enumerate(row_records(data)):
                if data.features:
                    record["features"] = {name: _sparse(X[i]) for name, X in data.features.items()}
                out.write(json.dumps(record, ensure_ascii=False) + "\n")
    sidecar.write_labels(writing)
    sidecar.write_filter(writing)
    sidecar.write_facts(writing)


def _sparse(row: Any) -> list[list[Any]]:
    return [row.indices.tolist(), np.asarray(row.data, np.float32).tolist()]


FORMAT = Format(
    "jsonl",
    frozenset(CONTENT),
    write,
    sniff=sniff,
    rows=rows,
)
