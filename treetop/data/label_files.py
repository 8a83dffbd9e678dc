"""Labels from a file of their own: JSONL, CSV, TSV or Parquet with `id`, and `text` or `name` where there is one."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from treetop.core.dataset import LabelSet
from treetop.core.errors import DataError
from treetop.data.lines import LABEL, json_lines, lines
from treetop.data.rows import Reading
from treetop.data.sidecar import label_set
from treetop.data.table import parquet_records

KINDS = ".jsonl, .csv, .tsv or .parquet"
FIELDS = ("name", "status", "into")  # beside `id` and `text`


def read_label_file(source: str | Path) -> tuple[LabelSet, list[int]]:
    """(the labels of a file, the line of each); a bad row is refused with file and line."""
    rows = list(label_rows(source))
    if not rows:
        raise DataError(f"no label in it. Give one label a row, with 'id' and 'text' ({KINDS}).", file=source)
    made = label_set(source, iter(rows), Reading())
    return made, [line for line, _ in rows]


def label_rows(source: str | Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """(line, record) of each row of a file of labels; empty cells of a table are left out."""
    file, reading = Path(source), Reading(fields=FIELDS)
    if not file.is_file():
        what = "a folder" if file.is_dir() else "no such file"
        raise DataError(f"{what}. Give a file of labels ({KINDS}).", file=file)
    suffix = Path(file.name.lower().removesuffix(".gz")).suffix
    if suffix in {".jsonl", ".json", ".ndjson"}:
        return json_lines(file, reading.problem, LABEL)
    if suffix in {".csv", ".tsv"}:
        return _table(file, reading, "\t" if suffix == ".tsv" else ",")
    if suffix == ".parquet":
        return parquet_records(file, reading)
    raise DataError(f"unknown kind of file '{suffix}'. Give labels as {KINDS}.", file=file)


def _table(file: Path, reading: Reading, mark: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    table = csv.reader((line for _, line in lines(file, reading.problem, ends=True)), delimiter=mark, strict=True)
    try:
        header = next(table, [])
        if "id" not in header:
            raise DataError(f"the header has no column 'id' (found: {', '.join(header)}). Add it.", file=file, line=1)
        for cells in table:
            if len(cells) > len(header):
                what = f"{len(cells)} cells under a header of {len(header)}. Put cells with the delimiter into quotes."
                raise DataError(what, file=file, line=table.line_num)
            if cells:
                yield table.line_num, {key: cell for key, cell in zip(header, cells, strict=False) if cell}
    except csv.Error as error:
        what = f"broken CSV ({error}). Put cells with quotes or line breaks into quotes, and double the quotes inside."
        raise DataError(what, file=file, line=table.line_num) from None
