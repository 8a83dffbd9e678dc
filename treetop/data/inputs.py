"""Texts to predict: a file, a folder of documents or standard input."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from treetop.core.errors import ConfigError, DataError, extra
from treetop.core.log import logger
from treetop.data.format import stem
from treetop.data.formats.table import parquet_records, table_records
from treetop.data.parse.documents import HTML, KINDS, PDF, documents, joined, kind, read_document
from treetop.data.parse.fields import id_of, join_text
from treetop.data.parse.json_text import json_lines
from treetop.data.parse.lines import lines, refuse, refuse_row, stream_lines
from treetop.data.parse.numbered import is_whole
from treetop.data.parse.rows import Reading, listed
from treetop.data.parse.sheets import SUFFIXES
from treetop.data.parse.skipped import Skipped
from treetop.data.parse.surrogates import whole, without_lone

STDIN = "standard input"
JSON = (".jsonl", ".json", ".ndjson")
TABLES = (".csv", ".tsv", *SUFFIXES)


class Input(NamedTuple):
    """A text to predict for, with what identifies it: its id, its row from 1, its file, fields that are kept."""

    text: str
    id: str | None = None
    row: int = 0
    file: str | None = None
    kept: Mapping[str, Any] = {}


def read_inputs(
    source: str,
    shard: str = "1/1",
    fields: Sequence[str] | None = None,
    *,
    keep: Sequence[str] = (),
    sheet: str | None = None,
    whole_file: bool = False,
    skip: Skipped | None = None,
) -> Iterator[Input]:
    """Texts of `source` ('-': standard input); with shard 'i/n' the i-th of n runs of neighbouring texts.

    `fields` are joined to one text; without them it is `text`, or title and content. `keep` names fields that are kept
    beside it. With `whole_file` a plain text is one document. `skip` collects bad rows.
    """
    part, parts = parse_shard(shard)
    problem = refuse_row if skip is None else skip.problem
    reading = Reading(fields=fields, keep=keep, sheet=sheet, skip=skip, problem=problem)

    def texts() -> Iterator[Input]:
        return _some(_counted(_texts(source, reading, whole_file), skip), source)

    if parts == 1:
        return texts()
    total = count_inputs(source, texts, skip)
    return islice(texts(), total * (part - 1) // parts, total * part // parts)


def count_inputs(source: str, texts: Callable[[], Iterator[Input]], skip: Skipped | None = None) -> int:
    """How many `texts()` of `source` there are; lines and Parquet files are counted without reading each text."""
    file = Path(source)
    if source == "-" or not file.exists():
        raise ConfigError("--shard: a stream has no known length. Give a file, or split the stream before.")
    suffix = kind(file.name)
    if skip is None and file.is_file() and suffix in JSON:
        return sum(1 for _, line in lines(file, refuse) if line and not line.isspace())
    if skip is None and file.is_file() and suffix == ".parquet":
        parquet = extra("pyarrow.parquet", "data")
        with (
            contextlib.suppress(OSError, ValueError),
            parquet.ParquetFile(file) as table,
        ):  # a damaged one is read below
            return int(table.metadata.num_rows)
    total = sum(1 for _ in texts())
    if skip is not None:
        skip.rows.clear()
    return total


def parse_shard(shard: str) -> tuple[int, int]:
    """(i, n) of a shard such as 2/8."""
    part, slash, parts = shard.partition("/")
    if not (slash and is_whole(part) and is_whole(parts) and 1 <= int(part) <= int(parts)):
        raise ConfigError(f"--shard {shard}: expected i/n with i from 1 to n, such as 2/8.")
    return int(part), int(parts)


def _counted(texts: Iterable[Input], skip: Skipped | None) -> Iterator[Input]:
    """The same texts with their rows; those that are left out count as well."""
    for number, text in enumerate(texts, 1):
        yield text._replace(row=number + (0 if skip is None else len(skip)))


def _some(texts: Iterator[Input], source: str) -> Iterator[Input]:
    """The same texts, and an error at the end if there were none."""
    text = None
    for text in texts:
        yield text
    if text is None:
        raise DataError("contains no texts. Give at least one.", file=STDIN if source == "-" else source)


def _texts(source: str, reading: Reading, whole_file: bool) -> Iterator[Input]:
    if source == "-":
        return iter([Input(whole_input())]) if whole_file else _standard_input(reading)
    file = Path(source)
    if not file.exists():
        remedy = "To ask for one text, pipe it: echo TEXT | treetop predict MODEL." if " " in source else ""
        raise DataError(
            f"no such file. {remedy or 'Give a file with texts, a folder of documents, or - for standard input.'}",
            file=file,
        )
    if file.is_dir():
        return _folder(file, reading)
    suffix = kind(file.name)
    if whole_file and suffix in (*JSON, *TABLES, ".parquet"):
        raise ConfigError(f"--whole-file: {file.name} has a text in each row. Leave the option out.")
    if whole_file or suffix in (*HTML, *PDF):
        return _documents([file], file.parent, reading)
    if suffix in JSON:
        return _records(json_lines(file, reading.problem), reading, file)
    if suffix in TABLES:
        return _records(table_records(file, reading, tuple(reading.keep)), reading, file)
    if suffix == ".parquet":
        return _records(parquet_records(file, reading), reading, file)
    return _lines(lines(file, reading.problem), reading)


def _folder(folder: Path, reading: Reading) -> Iterator[Input]:
    """The documents of a folder, in order of their names."""
    found, others = documents(folder)
    rows = next((file.name for file in (*found, *others) if stem(file) == "train" and file.parent == folder), None)
    if rows is not None:
        raise DataError(f"a folder with rows ({rows}), not documents. Give one of its files.", file=folder)
    if not found:
        names = listed([file.name for file in others], 4)
        sentence = f"no documents ({', '.join(KINDS)}) found (found: {names}). Give a folder that has some, or a file."
        raise DataError(sentence, file=folder)
    if others:
        endings = listed(sorted({kind(file.name) or file.name for file in others}), 6)
        logger.info("%s: %d files that are not documents are left out (%s)", folder, len(others), endings)
    return _documents(found, folder, reading)


def _documents(files: Sequence[Path], folder: Path, reading: Reading) -> Iterator[Input]:
    if reading.keep:
        raise ConfigError("--keep-column: documents have no columns. Leave it out; the file names are kept anyway.")
    for file in files:
        try:
            text = read_document(file)
        except DataError as error:
            reading.problem(DataError(error.reason, file=error.file, line=error.line))
            continue
        yield Input(text, file=without_lone(file.relative_to(folder).as_posix()))


def _lines(source: Iterable[tuple[int, str]], reading: Reading) -> Iterator[Input]:
    if reading.keep:
        raise ConfigError("--keep-column: lines of text have no columns. Leave it out.")
    return (Input(line) for number, line in source if reading.skip is None or not reading.skip.unclear(number))


def _records(records: Iterable[tuple[int, Mapping[str, Any]]], reading: Reading, file: object) -> Iterator[Input]:
    for line, record in records:
        if reading.skip is not None and reading.skip.unclear(line):
            continue
        try:
            text = _text(record, reading)
        except ValueError as error:
            reading.problem(DataError(str(error), file=file, line=line))
            continue
        yield text


def _text(record: Mapping[str, Any], reading: Reading) -> Input:
    """The text of a record, as training reads it: `text`, or title and content."""
    id_, text = id_of(record), without_lone(join_text(record, reading))
    for name in reading.keep:
        if name not in record:
            raise ValueError(f"field '{name}' is missing (found: {listed(record)}). Choose fields that rows have.")
    kept = {name: without_lone(value) if isinstance(value := record[name], str) else value for name in reading.keep}
    return Input(text, None if id_ is None else whole(id_, "the id"), kept=kept)


def whole_input() -> str:
    """All of standard input as one text."""
    text = joined((line for _, line in _decoded(refuse)), STDIN, "\n")
    if not text.strip():
        raise DataError("contains no text. Give one.", file=STDIN)
    return text


def _decoded(problem: Any) -> Iterator[tuple[int, str]]:
    """(number, line) of standard input."""
    if sys.stdin is None:
        raise DataError("closed. Give a file with texts, or direct one to it.", file=STDIN)
    return stream_lines(sys.stdin.buffer, STDIN, problem)


def _standard_input(reading: Reading) -> Iterator[Input]:
    """Lines of text, or JSON objects when a line looks like one."""
    for number, line in _decoded(reading.problem):
        record = _object(line)
        if record is not None:
            yield from _records([(number, record)], reading, STDIN)
        else:
            yield from _lines([(number, line)], reading)


def _object(line: str) -> dict[str, Any] | None:
    """The JSON object that a line is; None for a text, even one that looks like JSON."""
    if not (line.startswith("{") and line.rstrip().endswith("}")):
        return None
    try:
        record: dict[str, Any] = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record
