"""Spreadsheets (.xlsx) as tables with a header; sizes are checked before anything is unpacked into memory."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, time
from itertools import islice
from pathlib import Path
from typing import Any

from treetop.core.errors import DataError, TreetopError, extra
from treetop.data.parse.cells import Cells, cell_records, check_header
from treetop.data.parse.limits import Limits, how_to_raise
from treetop.data.parse.rows import Reading, listed

SUFFIXES = (".xlsx", ".xlsm")
MOST_ROWS = 1_048_576  # of a sheet, in every program that writes them
BATCH = 256
CHUNK = 1 << 20
Lacks = Callable[[list[str]], str]


def named_cells(file: Path, reading: Reading, lacks: Lacks, *, short: bool = False) -> Iterator[tuple[int, Cells]]:
    """(line or row, cells by column) of a CSV, TSV or spreadsheet."""
    if file.suffix.lower() in SUFFIXES:
        return sheet_records(file, reading, lacks)
    return cell_records(file, reading, lacks, short=short)


def sheet_records(file: Path, reading: Reading, lacks: Lacks) -> Iterator[tuple[int, Cells]]:
    """(row from 1, cells by column) of each row that is not blank; cells are text as CSV would have it."""
    limits = Limits.of_environment()
    openpyxl = extra("openpyxl", "data")
    with _one_sentence(file), file.open("rb") as stream:
        _check_parts(file, limits)
        with _quiet():
            book = openpyxl.load_workbook(stream, read_only=True, data_only=True, keep_links=False)
        try:
            sheet = _sheet(book, reading.sheet, file)
            header = _header(sheet, file, limits)
            if missing := lacks(header):
                raise DataError(missing, file=file, line=1)
            for number, values in _rows(sheet, len(header), file):
                cells = [_text(value) for value in values]
                if max(map(len, cells)) > limits.cell:
                    raise _too_long(file, limits, number)
                if any(cells):
                    yield number, dict(zip(header, cells, strict=True))
        finally:
            book.close()


def _check_parts(file: Path, limits: Limits) -> None:
    """Refuse a file that unpacks out of proportion, or to a single value longer than a cell may be."""
    with zipfile.ZipFile(file) as archive:
        parts = archive.infolist()
        if sum(part.file_size for part in parts) > max(limits.line, limits.expansion * file.stat().st_size):
            raise DataError(
                f"the spreadsheet unpacks to more than {limits.shown('expansion')} times its size. If it is what you "
                f"expect, {how_to_raise('expansion')}",
                file=file,
            )
        for part in parts:
            if part.filename.endswith((".xml", ".rels")):
                with archive.open(part) as stream:
                    _check_lengths(stream, file, limits)


def _check_lengths(stream: Any, file: Path, limits: Limits) -> None:
    length = 0  # since the last tag began
    while chunk := stream.read(CHUNK):
        pieces = chunk.split(b"<")
        if max(length + len(pieces[0]), *map(len, pieces)) > limits.cell:
            raise _too_long(file, limits)
        length = length + len(chunk) if len(pieces) == 1 else len(pieces[-1])


def _too_long(file: Path, limits: Limits, row: int | None = None) -> DataError:
    sentence = f"a cell is longer than {limits.shown('cell')}, the most that is read. Split it, or "
    return DataError(sentence + how_to_raise("cell"), file=file, line=row)


def _sheet(book: Any, name: str | None, file: Path) -> Any:
    sheets = {sheet.title: sheet for sheet in book.worksheets}
    if not sheets or (name is not None and name not in sheets):
        what = "there is no sheet" if name is None else f"there is no sheet '{name}'"
        raise DataError(f"{what} (found: {listed(sheets)}). Choose one of these with --sheet.", file=file)
    return next(iter(sheets.values())) if name is None else sheets[name]


def _header(sheet: Any, file: Path, limits: Limits) -> list[str]:
    with _quiet():
        first = next(sheet.iter_rows(max_row=1, max_col=limits.columns + 1, values_only=True), ())
    header = [_text(value).strip() for value in first]
    while header and not header[-1]:
        header.pop()
    if not header:
        raise DataError("the first row is empty. Put the names of the columns there.", file=file, line=1)
    return check_header(header, file, limits)


def _rows(sheet: Any, width: int, file: Path) -> Iterator[tuple[int, tuple[Any, ...]]]:
    sheet.reset_dimensions()  # what the file says of itself may be wrong
    rows = iter(sheet.iter_rows(min_row=2, max_col=width, values_only=True))
    number = 1
    while True:
        with _quiet():
            batch = list(islice(rows, BATCH))
        if not batch:
            return
        for values in batch:
            number += 1
            if number > MOST_ROWS:
                raise DataError(f"more than {MOST_ROWS:,} rows, the most a sheet has. Save it as CSV.", file=file)
            yield number, values


def _text(value: Any) -> str:
    """A cell as CSV would have it."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return value.isoformat() if isinstance(value, date | time) else str(value)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings of the reader about features of sheets that do not matter here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _one_sentence(file: Path) -> Iterator[None]:
    """Damage of any kind, which the reader reports by errors of many kinds, as one error."""
    try:
        yield
    except (TreetopError, GeneratorExit):
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        raise DataError(
            f"cannot be read as a spreadsheet ({reason}). Save it again as .xlsx, or as 'CSV UTF-8'.", file=file
        ) from None
