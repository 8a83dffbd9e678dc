"""What `treetop predict` writes: JSON lines, CSV, TSV or Parquet; a row for each text, or for each suggestion."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

from treetop.cli.streams import json_line
from treetop.core.errors import ConfigError, extra
from treetop.core.spreadsheet import plain_cell

if TYPE_CHECKING:
    from treetop.data.inputs import Input

Answer: TypeAlias = "tuple[Input, dict[str, Any]]"
TABLES = {".csv": ",", ".tsv": "\t"}  # endings that give a table, and their delimiters
LISTS = ("ids", "labels", "scores", "probabilities")
SINGLE = ("label_id", "label", "score", "probability")  # the same of one suggestion
KNOWN = "known_words"
TAKEN = {*LISTS, *SINGLE, KNOWN, "unknown", "row", "rank", "file"}
BATCH = 4096  # rows of a Parquet file that are written at a time


@dataclass(frozen=True)
class Form:
    """How answers are written."""

    ending: str = ""  # of the file
    long: bool = False  # a row for each suggestion
    digits: int | None = None  # of scores and probabilities
    separator: str = "|"  # of labels in a cell
    delimiter: str | None = None  # of columns
    bom: bool = False
    keep: tuple[str, ...] = ()  # columns of the input
    known_words: bool = False  # whether the share of a text's words that the model knows is among them

    @classmethod
    def of(cls, out: Path | None, **options: Any) -> Form:
        """The form for a file, or for standard output; ConfigError where options do not fit it."""
        form = cls("" if out is None else out.suffix.lower(), **options)
        if form.ending in (".xlsx", ".xlsm"):
            raise ConfigError(f"--out {out}: spreadsheets are not written. Write a .csv with --bom, which Excel opens.")
        if form.ending not in TABLES:
            defaults = {
                "--bom": not form.bom,
                "--delimiter": form.delimiter is None,
                "--separator": form.separator == "|",
            }
            for option in (name for name, unused in defaults.items() if not unused):
                raise ConfigError(f"{option}: is for tables. Give --out with a name that ends in .csv or .tsv.")
        if form.delimiter is not None and (len(form.delimiter) != 1 or form.delimiter in '"\r\n'):
            raise ConfigError(f"--delimiter: {form.delimiter!r} is not one character. Give one, such as ';'.")
        if not form.separator:
            raise ConfigError("--separator: is empty. Give the characters between labels, such as '|'.")
        if taken := [name for name in form.keep if name in TAKEN]:
            raise ConfigError(f"--keep-column {taken[0]}: is a column of the answer as well. Rename it in the input.")
        return form


def write(target: TextIO, answers: Iterable[Answer], form: Form) -> None:
    """Write all answers in the given form."""
    if form.ending in TABLES:
        _write_table(target, answers, form)
    elif form.ending == ".parquet":
        _write_parquet(target, answers, form)
    else:
        for record in _records(answers, form):
            target.write(json_line(record) + "\n")


def _records(answers: Iterable[Answer], form: Form) -> Iterator[dict[str, Any]]:
    """The rows: what identifies a text, then its labels, or one of them at a time."""
    for given, answer in answers:
        start: dict[str, Any] = {"row": given.row} if form.long else {}
        start |= {} if given.id is None else {"id": given.id}
        start |= {} if given.file is None else {"file": given.file}
        start |= {name: value for name, value in given.kept.items() if name not in start}
        share = answer.get(KNOWN)
        if form.known_words:
            start[KNOWN] = _rounded([share], form.digits)[0]
        rounded = {key: value for key, value in answer.items() if key != KNOWN}
        rounded |= {name: _rounded(answer[name], form.digits) for name in ("scores", "probabilities")}
        if not form.long:
            yield {**start, **rounded}
            continue
        for rank, values in enumerate(zip(*(rounded[name] for name in LISTS), strict=True), 1):
            yield {**start, "rank": rank, **dict(zip(SINGLE, values, strict=True))}


def _rounded(values: list[float | None], digits: int | None) -> list[float | None]:
    return values if digits is None else [None if value is None else round(value, digits) for value in values]


def _columns(form: Form, *, files: bool) -> list[str]:
    kept = [name for name in form.keep if name not in ("id", "text")]
    named = ["id", *(["file"] if files else []), *kept, *([KNOWN] if form.known_words else [])]
    if form.long:
        return ["row", *named, *(["text"] if "text" in form.keep else []), "rank", *SINGLE]
    return [*named, "text", *LISTS]


def _with_text(answers: Iterable[Answer], form: Form) -> tuple[Iterator[dict[str, Any]], list[str]]:
    """(the rows, each with its text where it is a column, the columns)."""
    source = iter(answers)
    head = list(islice(source, 1))
    columns = _columns(form, files=bool(head) and head[0][0].file is not None)

    def rows() -> Iterator[dict[str, Any]]:
        for given, answer in chain(head, source):
            for record in _records([(given, answer)], form):
                yield {**record, "text": given.text}

    return rows(), columns


def _write_table(target: TextIO, answers: Iterable[Answer], form: Form) -> None:
    """Texts and names are shown by a spreadsheet as they are; ids are for programs and never changed."""
    rows, columns = _with_text(answers, form)
    if form.bom:
        target.write("\ufeff")
    table = csv.writer(target, delimiter=form.delimiter or TABLES[form.ending])
    table.writerow(columns)
    for record in rows:
        table.writerow([_cell(name, record.get(name), form) for name in columns])


def _cell(name: str, value: Any, form: Form) -> Any:
    from treetop.data.formats.table import joined

    if value is None:
        return ""
    if name in LISTS:
        cell = joined([item for item in value if item is not None], form.separator)
        return plain_cell(cell) if name == "labels" else cell
    if name in ("text", "label", "file", *form.keep) and name != "id":
        return plain_cell(_as_text(value))
    return value


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _write_parquet(target: TextIO, answers: Iterable[Answer], form: Form) -> None:
    pyarrow, parquet = extra("pyarrow", "data"), extra("pyarrow.parquet", "data")
    rows, columns = _with_text(answers, form)
    string, number = pyarrow.string(), pyarrow.float64()
    kinds = {"row": pyarrow.int64(), "rank": pyarrow.int64(), "score": number, "probability": number, KNOWN: number}
    kinds |= {"ids": pyarrow.list_(string), "labels": pyarrow.list_(string)}
    kinds |= {"scores": pyarrow.list_(number), "probabilities": pyarrow.list_(number)}
    schema = pyarrow.schema([(name, kinds.get(name, string)) for name in columns])
    with parquet.ParquetWriter(target.buffer, schema, compression="zstd") as out:  # type: ignore[attr-defined]
        while part := list(islice(rows, BATCH)):
            texts = [{name: _value(record.get(name), name in kinds) for name in columns} for record in part]
            out.write_batch(pyarrow.RecordBatch.from_pylist(texts, schema=schema))


def _value(value: Any, typed: bool) -> Any:
    return value if typed or value is None else _as_text(value)
