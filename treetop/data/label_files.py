"""Labels from a separate file: JSONL, CSV, TSV, Excel or Parquet with `id`, and `text` or `name` where there is one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from treetop.core.dataset import LabelSet
from treetop.core.errors import DataError
from treetop.data import sidecar
from treetop.data.format import Head
from treetop.data.formats import annif, skos
from treetop.data.formats.table import parquet_records
from treetop.data.parse.json_text import LABEL, json_lines
from treetop.data.parse.lines import head
from treetop.data.parse.rows import Reading
from treetop.data.parse.sheets import SUFFIXES
from treetop.data.sidecar import label_cells, label_set

KINDS = ".jsonl, .csv, .tsv, .xlsx or .parquet"
FIELDS = ("name", "status", "into", "alt", "broader", "related")  # besides `id` and `text`


def read_label_file(source: str | Path) -> tuple[LabelSet, list[int]]:
    """(the labels of a file, the line of each); a bad row is refused with file and line."""
    rows = list(label_rows(source))
    if not rows:
        raise DataError(f"contains no labels. Give one label per row, with 'id' and 'text' ({KINDS}).", file=source)
    labels = label_set(source, iter(rows), Reading())
    return labels, [line for line, _ in rows]


def labels_reader(file: Path) -> Callable[[Reading], LabelSet]:
    """How the labels file beside the rows is read: by its first line, then by its ending."""
    start = Head(file, head(file))
    if re.match(r"<\S+>\t", start.line):
        return lambda reading: annif.read_vocabulary(file, reading)
    if start.suffix in (".csv", ".tsv", *SUFFIXES):
        return lambda reading: sidecar.read_label_table(file, reading)
    if start.suffix in (".ttl", ".nt", ".rdf", ".xml"):
        return lambda reading: skos.read_labels(file, reading)
    return lambda reading: sidecar.read_labels(file, reading)


def label_rows(source: str | Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """(line, record) of each row of a file of labels; empty cells of a table are left out."""
    file, reading = Path(source), Reading(fields=FIELDS)
    if not file.is_file():
        what = "a folder" if file.is_dir() else "no such file"
        raise DataError(f"{what}. Give a file of labels ({KINDS}).", file=file)
    suffix = Path(file.name.lower().removesuffix(".gz")).suffix
    if suffix in {".jsonl", ".json", ".ndjson"}:
        return json_lines(file, reading.problem, LABEL)
    if suffix in {".csv", ".tsv", *SUFFIXES}:
        return label_cells(file, reading)
    if suffix == ".parquet":
        return parquet_records(file, reading)
    raise DataError(f"unknown kind of file '{suffix}'. Give labels as {KINDS}.", file=file)
