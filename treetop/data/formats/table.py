"""Tables with a header: CSV, TSV and Parquet; columns are named like the fields of JSON lines."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from treetop.core.errors import extra
from treetop.core.log import logger, progress
from treetop.data import sidecar
from treetop.data.format import CONTENT, Format, Head, Writing
from treetop.data.formats.jsonl import row_records
from treetop.data.parse.arrow import BATCH, batch_records, wanted_columns
from treetop.data.parse.cells import delimiter
from treetop.data.parse.fields import to_row
from treetop.data.parse.json_text import decode
from treetop.data.parse.lines import writer
from treetop.data.parse.numbered import parse_float
from treetop.data.parse.rows import Reading, Row, each_row, listed
from treetop.data.parse.sheets import named_cells

NUMBERS = ("targets", "relevance")
LISTS = ("labels", *NUMBERS)


def rows(file: Path, reading: Reading) -> Iterator[Row]:
    """Rows of a CSV, TSV or spreadsheet with a header."""
    return _with_lists(table_records(file, reading, (reading.label_field,)), file, reading)


def _with_lists(records: Iterator[tuple[int, dict[str, Any]]], file: Path, reading: Reading) -> Iterator[Row]:
    """The rows of records whose lists may be cells such as 'a|b'."""
    hint = _SeparatorHint(reading.separator)

    def make(line: int, record: Any, reading: Reading) -> Row:
        lists = {key: record[key] for key in (reading.label_field, *NUMBERS) if isinstance(record.get(key), str)}
        return to_row(line, record | {key: _cell_list(key, lists[key], reading, hint) for key in lists}, reading)

    yield from each_row(records, make, file, reading)
    hint.warn(file, reading.doubt)


def table_records(file: Path, reading: Reading, needed: tuple[str, ...]) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line, cells by column) of a CSV, TSV or spreadsheet; the header must name a text and the `needed` columns."""

    def lacks(header: list[str]) -> str:
        if {*needed, *(reading.fields or ())} <= {*header} and {*reading.names} & {*header}:
            return ""
        names = (*(reading.fields or ("text",)), *needed)
        if len(header) == 1 and len(names) > 1 and all(name in header[0] for name in names):
            return (
                f"the header has one column, '{header[0]}'; columns are separated by a comma, a TAB, ';' or '|'. Save "
                "the file as CSV with commas."
            )
        given = reading.fields or (() if {*reading.names} & {*header} else ("text",))
        missing = [name for name in dict.fromkeys((*given, *needed)) if name not in header]
        if fields := [name for name in missing if {*name.split(",")} <= {*header}]:
            each = " ".join(f'--text-column "{name}"' for name in fields[0].split(","))
            return f"there is no column '{fields[0]}'. Name each column by itself: {each}."
        columns = f"column{'s' if len(missing) > 1 else ''} {' and '.join(repr(name) for name in missing)}"
        options = " and ".join(
            ["--text-column"] * bool({*missing} - {*needed})
            + ["--label-column"] * (reading.label_field in needed and reading.label_field in missing)
            + ["--keep-column"] * bool({*missing} & {*needed} - {reading.label_field})
        )
        them = "them" if len(missing) > 1 else "a column"
        return f"the header needs the {columns} (found: {listed(header)}). Rename {them}, or name yours with {options}."

    empty = (
        "text",
        "id",
        reading.label_field,
        *NUMBERS,
        *reading.names,
        *reading.keep,
    )  # columns in which an empty cell has a meaning
    for line, cells in named_cells(file, reading, lacks):
        yield line, {key: cell for key, cell in cells.items() if cell or key in empty}


def _cell_list(key: str, cell: str, reading: Reading, hint: _SeparatorHint) -> Any:
    """'a|b' or '["a", "b"]' as a list; an empty cell means no labels, or no numbers."""
    if cell.startswith("["):
        try:
            return decode(cell)
        except ValueError:
            raise ValueError(f"the cell of '{key}' starts with [ but is not a JSON list: {cell[:40]!r}.") from None
    pieces = [piece.strip() for piece in cell.split(reading.separator) if piece.strip()]
    if key == reading.label_field:
        hint.count(cell)
        return pieces
    try:
        return [parse_float(piece) for piece in pieces] or None
    except ValueError:
        raise ValueError(f"the cell of '{key}' is {cell[:40]!r}, expected numbers such as 0.5|1.") from None


class _SeparatorHint:
    """Warns when labels seem to have another separator than the given one."""

    def __init__(self, separator: str) -> None:
        self.separator = separator
        self.counts = dict.fromkeys((separator, "|", ";", ","), 0)
        self.names = 0  # cells such as 'Smith, John', in which a comma need not separate labels
        self.cells = 0

    def count(self, cell: str) -> None:
        if cell:
            self.cells += 1
            for mark in self.counts:
                self.counts[mark] += mark in cell
            self.names += "," in cell and cell.count(",") == cell.count(", ")

    def warn(self, file: Path, doubt: Callable[[str], None]) -> None:
        best = max(self.counts, key=lambda mark: self.counts[mark])
        if self.counts[self.separator] == 0 and self.counts[best] > self.cells / 4:
            likely = best != "," or self.names < self.counts[best] / 2
            (doubt if likely else logger.warning)(
                f"{file}: no label cell has '{self.separator}' but {self.counts[best]} of {self.cells} have '{best}'. "
                f"If labels are separated by it, read with separator='{best}' (--separator)."
            )


def sniff(head: Head) -> bool:
    """By extension, or by a header that names text and labels."""
    if head.suffix in (".csv", ".tsv"):
        return True
    cells = {cell.strip(' "') for cell in head.line.split(delimiter(head.line))}
    return "labels" in cells and bool(cells & {"text", "title"})


def _writer(suffix: str, mark: str) -> Any:
    def write(writing: Writing) -> None:
        for split, data in writing.splits.items():
            with writer(writing.file(split + suffix)) as out:
                table: Any = None
                for record in row_records(data):
                    if table is None:
                        # lines end in \r\n so that the writer quotes cells with either character
                        table = csv.DictWriter(out, list(record), delimiter=mark, lineterminator="\r\n")
                        table.writeheader()
                    table.writerow(record | {key: joined(record[key]) for key in LISTS if key in record})
        _write_beside(writing)

    return write


def joined(items: list[Any], separator: str = "|") -> str:
    """Labels or numbers in one cell: 'a|b', or a JSON list where that would be read differently."""
    pieces = [item if isinstance(item, str) else repr(item) for item in items]
    plain = separator.join(pieces)
    safe = all(
        piece and piece == piece.strip() and separator not in piece for piece in pieces
    ) and not plain.startswith("[")
    return plain if safe else json.dumps(items, ensure_ascii=False)


def _write_beside(writing: Writing) -> None:
    sidecar.write_labels(writing)
    sidecar.write_filter(writing)
    sidecar.write_facts(writing)


def parquet_rows(file: Path, reading: Reading) -> Iterator[Row]:
    """Rows of a Parquet file; "line" in messages is the row counted from 1."""
    return _with_lists(parquet_records(file, reading), file, reading)


def parquet_records(file: Path, reading: Reading) -> Iterator[tuple[int, dict[str, Any]]]:
    """(row from 1, cells by column) of a Parquet file; unused columns are not read."""
    parquet = extra("pyarrow.parquet", "data")

    def batches(pyarrow: Any) -> Iterator[Any]:
        with parquet.ParquetFile(file) as table, progress(f"read {file.name}", table.metadata.num_rows) as bar:
            wanted = wanted_columns(table.schema_arrow.names, reading)
            for batch in table.iter_batches(batch_size=BATCH, columns=wanted):
                yield batch
                bar.step(len(batch))

    return batch_records(batches, file, "Parquet", "Copy the file again.")


def write_parquet(writing: Writing) -> None:
    """train.parquet, test.parquet with the other files of the native folder next to them."""
    pyarrow, parquet = extra("pyarrow", "data"), extra("pyarrow.parquet", "data")
    for split, data in writing.splits.items():
        schema = arrow_schema(pyarrow, next(row_records(data), {"text": "", "labels": []}))
        with parquet.ParquetWriter(writing.folder / f"{split}.parquet", schema, compression="zstd") as out:
            records = row_records(data)
            while part := list(islice(records, 8192)):
                out.write_batch(pyarrow.RecordBatch.from_pylist(part, schema=schema))
    _write_beside(writing)


def arrow_schema(pyarrow: Any, record: dict[str, Any]) -> Any:
    """Arrow types of the fields a record has."""
    kinds = {"labels": pyarrow.list_(pyarrow.string())} | dict.fromkeys(
        ("targets", "relevance"), pyarrow.list_(pyarrow.float32())
    )
    return pyarrow.schema([(key, kinds.get(key, pyarrow.string())) for key in record])


def sniff_parquet(head: Head) -> bool:
    """By the magic bytes."""
    return head.start.startswith(b"PAR1")


HOLDS = frozenset(CONTENT) - {"features", "views"}
CSV = Format("csv", HOLDS, _writer(".csv", ","), sniff=sniff, rows=rows)
TSV = Format("tsv", HOLDS, _writer(".tsv", "\t"))
PARQUET = Format("parquet", HOLDS, write_parquet, sniff=sniff_parquet, rows=parquet_rows)
