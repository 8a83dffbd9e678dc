"""Bad rows that are left out on request, with file, line and reason, instead of stopping at the first."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from treetop.core.errors import DataError, visible
from treetop.core.target import replacing_file
from treetop.data.parse.lines import Incomplete, NotUtf8

if TYPE_CHECKING:
    from treetop.data.parse.rows import Row

Place = tuple[str, int | None]


class Skipped:
    """Collects bad rows, which are left out: `Dataset.read(path, skip=Skipped())`.

    `len` counts them; `rows` has the reason of each by file and line. One object may serve several reads.

    >>> import treetop
    >>> skipped = treetop.Skipped()
    >>> len(treetop.Dataset.read("wordnet", "test", skip=skipped)), len(skipped)
    (12999, 0)
    """

    def __init__(self) -> None:
        self.rows: dict[Place, str] = {}
        self.reports = 0  # of bad rows, those that are known already too
        self._unclear: list[int] = []  # lines that are not UTF-8, whose row is still to come

    def __len__(self) -> int:
        return len(self.rows)

    def problem(self, error: DataError) -> None:
        """Note a bad row, as the handler of `Reading`; what is no fault of a single row still stops the reading."""
        if isinstance(error, Incomplete):
            raise error
        self.reports += 1
        self.rows.setdefault((str(error.file), error.line), error.reason)
        if isinstance(error, NotUtf8) and error.line is not None:
            self._unclear.append(error.line)
        elif error.line is not None:
            self._passed(error.line)

    def without(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows but those with a line that is not UTF-8, which readers report and go on with."""
        self._unclear = []
        for row in rows:
            if not self.unclear(row.line):
                yield row

    def unclear(self, line: int) -> bool:
        """Whether the row that ends at this line has one that is not UTF-8."""
        return self._passed(line) > 0

    def _passed(self, line: int) -> int:
        before = len(self._unclear)
        self._unclear = [number for number in self._unclear if number > line]
        return before - len(self._unclear)

    def has(self, file: object, line: int | None) -> bool:
        """Whether the row at this place was reported."""
        return (str(file), line) in self.rows

    def save(self, target: str | Path) -> None:
        """Write one JSON object per bad row: file, line and reason."""
        with replacing_file(Path(target)) as out:
            for (file, line), reason in self.rows.items():
                record = {"file": file, "line": line, "reason": reason}
                out.write(visible(json.dumps(record, ensure_ascii=False)) + "\n")
