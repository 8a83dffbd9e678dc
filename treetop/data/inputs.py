"""Texts to predict: a file or standard input, as JSONL, CSV, Parquet or one text per line."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from treetop.core.errors import ConfigError, DataError
from treetop.data.formats.table import parquet_records, table_records
from treetop.data.parse.fields import id_of, join_text
from treetop.data.parse.json_text import json_lines
from treetop.data.parse.limits import Limits, how_to_raise
from treetop.data.parse.lines import lines, refuse, stream_lines
from treetop.data.parse.numbered import is_whole
from treetop.data.parse.rows import Reading
from treetop.data.parse.surrogates import whole, without_lone

STDIN = "standard input"


class Input(NamedTuple):
    """A text to predict for, with its id where the source has one."""

    text: str
    id: str | None = None


def read_inputs(source: str, shard: str = "1/1", fields: Sequence[str] | None = None) -> Iterator[Input]:
    """Texts of `source` ('-': standard input); with shard 'i/n' the i-th of n runs of neighbouring texts.

    `fields` are joined to one text; without them it is `text`, or title and content.
    """
    (part, parts), reading = _shard(shard), Reading(fields=fields)
    if parts == 1:
        return _some(_texts(source, reading), source)
    if source == "-" or not Path(source).is_file():
        raise ConfigError("--shard: a stream has no known length. Give a file, or split the stream before.")
    total = sum(1 for _ in _some(_texts(source, reading), source))
    return islice(_texts(source, reading), total * (part - 1) // parts, total * part // parts)


def _shard(shard: str) -> tuple[int, int]:
    part, slash, parts = shard.partition("/")
    if not (slash and is_whole(part) and is_whole(parts) and 1 <= int(part) <= int(parts)):
        raise ConfigError(f"--shard {shard}: expected i/n with i from 1 to n, such as 2/8.")
    return int(part), int(parts)


def _some(texts: Iterator[Input], source: str) -> Iterator[Input]:
    """The same texts, and an error at the end if there were none."""
    text = None
    for text in texts:
        yield text
    if text is None:
        raise DataError("contains no texts. Give at least one.", file=STDIN if source == "-" else source)


def _texts(source: str, reading: Reading) -> Iterator[Input]:
    if source == "-":
        return _standard_input(reading)
    file = Path(source)
    if not file.exists():
        remedy = "To ask for one text, pipe it: echo TEXT | treetop predict MODEL." if " " in source else ""
        raise DataError(f"no such file. {remedy or 'Give a file with texts, or - for standard input.'}", file=file)
    if file.is_dir():
        raise DataError("a folder. Give one file with texts, or - for standard input.", file=file)
    suffix = Path(file.name.lower().removesuffix(".gz")).suffix
    if suffix in {".jsonl", ".json", ".ndjson"}:
        return (_text(record, reading, file, line) for line, record in json_lines(file, refuse))
    if suffix in {".csv", ".tsv"}:
        return (_text(record, reading, file, line) for line, record in table_records(file, reading, ()))
    if suffix == ".parquet":
        return (_text(record, reading, file, row) for row, record in parquet_records(file, reading))
    return (Input(line) for _, line in lines(file))


def _text(record: Any, reading: Reading, file: object, line: int) -> Input:
    """The text of a record, as training reads it: `text`, or title and content."""
    try:
        id_ = id_of(record)
        return Input(without_lone(join_text(record, reading)), None if id_ is None else whole(id_, "the id"))
    except ValueError as error:
        raise DataError(str(error), file=file, line=line) from None


def whole_input() -> str:
    """All of standard input as one text."""
    found, length, limits = [], 0, Limits.of_environment()
    for _, line in _decoded():
        found.append(line)
        length += len(line) + 1
        if length > limits.line:
            sentence = f"more than {limits.shown('line')} for one text, the most that is read. Shorten it, or "
            raise DataError(sentence + how_to_raise("line"), file=STDIN)
    text = "\n".join(found)
    if not text.strip():
        raise DataError("contains no text. Give one.", file=STDIN)
    return text


def _decoded() -> Iterator[tuple[int, str]]:
    """(number, line) of standard input."""
    if sys.stdin is None:
        raise DataError("closed. Give a file with texts, or direct one to it.", file=STDIN)
    return stream_lines(sys.stdin.buffer, STDIN)


def _standard_input(reading: Reading) -> Iterator[Input]:
    """Lines of text, or JSON objects when a line looks like one."""
    for number, line in _decoded():
        if not (line.startswith("{") and line.rstrip().endswith("}")):
            yield Input(line)
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            yield Input(line)  # a text that only looks like JSON
            continue
        yield _text(record, reading, STDIN, number)
