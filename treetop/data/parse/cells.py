"""CSV and TSV with a header, for rows, labels and filter pairs."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from treetop.core.errors import DataError
from treetop.data.parse.limits import Limits, how_to_raise
from treetop.data.parse.lines import Incomplete, lines, refuse
from treetop.data.parse.rows import Reading

DELIMITERS = (",", "\t", ";")
LAST = "|"  # usual between labels, so between columns only where the header has none of the others
Cells = dict[str, str]


def delimiter(header: str) -> str:
    """The character that splits the header line into most cells."""
    found = max(DELIMITERS, key=header.count)
    return LAST if found not in header and LAST in header else found


def cell_records(
    file: Path, reading: Reading, lacks: Callable[[list[str]], str], *, short: bool = False
) -> Iterator[tuple[int, Cells]]:
    """(line, cells by column) of each row that is not blank; `lacks` says what a header misses, if anything.

    Where rows may be `short`, cells missing at their end are left out.
    """
    csv.field_size_limit(2**31 - 1)  # the default of 128 kB would refuse long texts; limits are checked here
    limits = Limits.of_environment()
    source = lines(file, lambda error: (refuse if error.line == 1 else reading.problem)(error), ends=True)
    first = next(source, (0, ""))[1]
    if not first.strip():
        raise DataError("the file is empty, or its first line is. Write the names of the columns there.", file=file)
    mark = delimiter(first)
    header = _header(first, mark, file, limits)
    if missing := lacks(header):
        raise DataError(missing, file=file, line=1)
    rows = _Rows(source, file, limits)
    table = csv.reader(rows, delimiter=mark, strict=True)
    while True:
        rows.length = 0
        try:
            cells = next(table, None)
        except csv.Error as error:
            what = (
                f"broken CSV ({error}). Put cells with quotes or line breaks into quotes, and double the quotes inside."
            )
            unclosed = "end of data" in str(error)  # a quote that is not closed takes all rows after it along
            reading.problem((Incomplete if unclosed else DataError)(what, file=file, line=table.line_num + 1))
            continue
        if cells is None:
            return
        line = table.line_num + 1
        if rows.length > limits.cell and max(map(len, cells), default=0) > limits.cell:
            sentence = f"a cell is longer than {limits.shown('cell')}, the most that is read. Split it, or "
            raise DataError(sentence + how_to_raise("cell"), file=file, line=line)
        if len(cells) == len(header) or (short and 0 < len(cells) < len(header)):
            yield line, dict(zip(header, cells, strict=False))
        elif cells:
            what = f"{len(cells)} cells under a header of {len(header)}."
            reading.problem(DataError(f"{what} Put cells with the delimiter inside into quotes.", file=file, line=line))


class _Rows:
    """Lines for the CSV parser, which counts how long a row has become: one in quotes may go over many lines."""

    def __init__(self, source: Iterator[tuple[int, str]], file: Path, limits: Limits) -> None:
        self.source, self.file, self.limits, self.length = source, file, limits, 0

    def __iter__(self) -> _Rows:
        return self

    def __next__(self) -> str:
        number, line = next(self.source)
        self.length += len(line)
        if self.length > self.limits.line:
            sentence = (
                f"the row that ends here is longer than {self.limits.shown('line')}, the most that is read. Close "
            )
            raise DataError(sentence + f"its quotes, or {how_to_raise('line')}", file=self.file, line=number)
        return line


def _header(first: str, mark: str, file: Path, limits: Limits) -> list[str]:
    if "\r" in first.rstrip("\r\n"):
        raise DataError(
            "lines end with CR only, as on old Macs. Save the file with LF or CRLF, for example with: "
            f"tr '\\r' '\\n' < {file.name}",
            file=file,
            line=1,
        )
    try:
        header = [cell.strip() for cell in next(csv.reader([first], delimiter=mark), [])]
    except csv.Error as error:
        raise DataError(
            f"broken header ({error}). Write column names separated by commas.", file=file, line=1
        ) from None
    return check_header(header, file, limits)


def check_header(header: list[str], file: Path, limits: Limits) -> list[str]:
    """The same names of columns, if there are not too many and none is there twice."""
    if len(header) > limits.columns:
        sentence = (
            f"the header has {len(header):,} columns, at most {limits.shown('columns')} are read. Remove some, or "
        )
        raise DataError(sentence + how_to_raise("columns"), file=file, line=1)
    counts = Counter(filter(None, header))
    if twice := [name for name, count in counts.items() if count > 1]:
        raise DataError(f"the header has the column '{twice[0][:60]}' twice. Rename or remove one.", file=file, line=1)
    return header
