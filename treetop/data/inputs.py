"""Texts to predict: a file or standard input, as JSONL, CSV, Parquet or one text a line."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from treetop.core.errors import ConfigError, DataError, extra
from treetop.data.lines import json_lines, lines, refuse

STDIN = "standard input"


def read_inputs(source: str, shard: str = "1/1") -> Iterator[str]:
    """Texts of `source` ('-': standard input); with shard 'i/n' the i-th of n runs of neighbouring texts."""
    part, parts = _shard(shard)
    if parts == 1:
        return _texts(source)
    if source == "-":
        raise ConfigError("--shard: standard input has no known length. Give a file, or split the stream before.")
    total = sum(1 for _ in _texts(source))
    return islice(_texts(source), total * (part - 1) // parts, total * part // parts)


def _shard(shard: str) -> tuple[int, int]:
    part, slash, parts = shard.partition("/")
    if not (slash and part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise ConfigError(f"--shard {shard}: expected i/n with i from 1 to n, such as 2/8.")
    return int(part), int(parts)


def _texts(source: str) -> Iterator[str]:
    if source == "-":
        return _standard_input()
    file = Path(source)
    if not file.is_file():
        raise DataError("no such file. Give a file with texts, or - for standard input.", file=file)
    suffix = Path(file.name.lower().removesuffix(".gz")).suffix
    if suffix in {".jsonl", ".json", ".ndjson"}:
        return (_text(record, file, line) for line, record in json_lines(file, refuse))
    if suffix in {".csv", ".tsv"}:
        return _table(file, "\t" if suffix == ".tsv" else ",")
    if suffix == ".parquet":
        return _parquet(file)
    return (line for _, line in lines(file))


def _text(record: Any, file: object, line: int) -> str:
    value = record.get("text")
    if isinstance(value, str):
        return value
    what = "no field 'text'" if "text" not in record else f"'text' is {type(value).__name__}, expected a string"
    raise DataError(f"{what}. Every row needs a text.", file=file, line=line)


def _standard_input() -> Iterator[str]:
    """Lines of text, or JSON objects when a line looks like one."""
    for number, raw in enumerate(sys.stdin.buffer, 1):
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise DataError(f"byte {error.start + 1} of the line is not UTF-8.", file=STDIN, line=number) from None
        if not (line.startswith("{") and line.rstrip().endswith("}")):
            yield line
            continue
        try:
            record = json.loads(line)
        except ValueError:
            yield line  # a text that only looks like JSON
            continue
        yield _text(record, STDIN, number)


def _table(file: Path, separator: str) -> Iterator[str]:
    csv.field_size_limit(1 << 30)
    rows = csv.reader((line + "\n" for _, line in lines(file)), delimiter=separator)
    header = [name.strip().lower() for name in next(rows, [])]
    if "text" not in header:
        raise DataError(f"no column 'text' among {', '.join(header) or 'none'}. Name it.", file=file, line=1)
    column = header.index("text")
    for row in rows:
        if row:
            if len(row) <= column:
                raise DataError(f"{len(row)} fields, the header has {len(header)}.", file=file, line=rows.line_num)
            yield row[column]


def _parquet(file: Path) -> Iterator[str]:
    parquet = extra("pyarrow.parquet", "data")
    table = parquet.ParquetFile(file)
    if "text" not in table.schema_arrow.names:
        raise DataError(f"no column 'text' among {', '.join(table.schema_arrow.names)}.", file=file)
    row = 0
    for batch in table.iter_batches(columns=["text"]):
        for value in batch.column(0).to_pylist():
            row += 1
            yield _text({"text": value}, file, row)
