"""What one row may hold: columns of its labels, and values in their ranges; faults are reported with their line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from treetop.core.errors import DataError
from treetop.data.parse.rows import Notes, Reading, Row, Sparse, place, shown
from treetop.data.parse.space import LabelTable
from treetop.data.parse.surrogates import whole

LARGEST = float(np.finfo(np.float32).max)
MOST_COLUMNS = 2**31 - 1


class RowChecks:
    """Checks rows of one file; `width` gives the declared number of columns of precomputed features."""

    def __init__(
        self, file: object, labels: LabelTable, reading: Reading, notes: Notes, width: Callable[[str], int | None]
    ) -> None:
        self.file, self.labels, self.reading, self.notes, self.width = file, labels, reading, notes, width

    def fault(self, row: Row, reason: str) -> None:
        file, line = place(row, self.file)
        self.reading.problem(DataError(reason, file=file, line=line))

    def good(self, row: Row) -> bool:
        """Whether the values of a row are allowed; reports a fault where they are not."""
        return (
            (row.id is None or row.id.isascii() or self._id_fits(row, row.id))
            and (row.targets is None or self._fits(row, "targets", 1.0))
            and (row.relevance is None or self._fits(row, "relevance", LARGEST))
            and (row.features is None or all(self._features_fit(row, name, x) for name, x in row.features.items()))
        )

    def columns(self, row: Row) -> list[int] | None:
        """Columns of a row's labels, or None after a fault."""
        if self.labels.numbered:
            return self._numbered(row)
        try:
            known = self.labels.columns
            return [known[key] for key in row.labels]
        except (KeyError, TypeError):
            resolved = [self._column(row, key) for key in row.labels]
            columns = [column for column in resolved if column is not None]
            return columns if len(columns) == len(resolved) else None

    def _column(self, row: Row, key: Any) -> int | None:
        if type(key) is int:
            key = str(key)
        if type(key) is not str or not key:
            got = "an empty string" if key == "" else f"{type(key).__name__} {shown(key)}"
            self.fault(row, f'a label is {got}. Labels are strings (or whole numbers), such as "cat".')
            return None
        try:
            key = self.labels.spelled(whole(key, "the label"))
            column = self.labels.find(key)
        except ValueError as error:
            self.fault(row, str(error))
            return None
        except KeyError:
            self.fault(row, f"label {shown(key)} is the name of several labels. Use the id instead.")
            return None
        if column is None:
            if not self.labels.open:
                where = "train" if self.labels.fixed is None else "the labels file"
                if not self.notes.odd(f"label unknown to {where}", row, f": {shown(key)}"):
                    return None
            column = self.labels.add(key)
        return column

    def _numbered(self, row: Row) -> list[int] | None:
        shift, total = int(self.reading.one_based), len(self.labels)
        columns = [int(key) - shift for key in row.labels]
        if columns and not (min(columns) >= 0 and max(columns) < total):
            bad = next(c for c in columns if not 0 <= c < total) + shift
            self.fault(row, out_of_range("label", bad, total, self.reading.one_based))
            return None
        return columns

    def _id_fits(self, row: Row, id_: str) -> bool:
        try:
            whole(id_, "the id")
            return True
        except ValueError as error:
            self.fault(row, str(error))
            return False

    def _fits(self, row: Row, what: str, top: float) -> bool:
        values = getattr(row, what)
        if len(values) != len(row.labels):
            self.fault(row, f"{len(values)} {what} for {len(row.labels)} labels. Give one number per label.")
            return False
        for value in values:
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= top:
                allowed = (
                    "numbers from 0 to 1; put weights into 'relevance'" if top == 1.0 else "finite numbers, 0 or more"
                )
                self.fault(row, f"{what} has {shown(value)}. Allowed: {allowed}.")
                return False
        return True

    def _features_fit(self, row: Row, name: str, matrix: Sparse) -> bool:
        places, values = matrix
        width = self.width(name)
        top = MOST_COLUMNS if width is None else width
        if len(places) and (places.min() < 0 or places.max() >= top):
            bad = int(next(place for place in places if not 0 <= place < top))
            shift = self.reading.one_based
            self.fault(row, out_of_range("feature", bad + shift, width, shift))
            return False
        if not np.isfinite(values).all():
            self.fault(row, "a feature value is NaN or infinite. Allowed: finite numbers; fix or drop the row.")
            return False
        if (np.diff(places) <= 0).any() and len(places) != len(np.unique(places)):
            self.notes.odd("the same feature twice in one row (values added)", row)
        return True


def out_of_range(what: str, value: int, total: int | None, one_based: bool) -> str:
    """The error message for an id out of range; hints when ids seem to start at 1."""
    low = int(one_based)
    allowed = f"{low} or more" if total is None else f"{low} to {total - 1 + one_based}"
    sentence = f"{what} {value} is out of range. Allowed: {allowed}"
    if not one_based and value == total:
        return f"{sentence}; ids seem to start at 1: read with one_based=True (--one-based)."
    if one_based and value == 0:
        return f"{sentence}; ids seem to start at 0: read without one_based."
    return f"{sentence}. Fix the row or the header."
