"""Rows of any format become one Dataset here: labels get columns, targets are checked, oddities are counted."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treetop.core.dataset import Csr, Dataset, LabelSet
from treetop.core.errors import DataError
from treetop.core.log import logger
from treetop.core.texts import TextsBuilder
from treetop.data.lines import Problem, refuse

Sparse = tuple[NDArray[np.int64], NDArray[np.float32]]  # places and values of one row


class Row(NamedTuple):
    """One document as a format gives it; labels are ids or names, or column numbers where the format counts."""

    line: int
    text: str
    labels: Sequence[Any]
    targets: Sequence[float] | None = None  # beside `labels`, 0 to 1
    relevance: Sequence[float] | None = None  # beside `labels`
    id: str | None = None
    role: int = 0
    features: Mapping[str, Sparse] | None = None


@dataclass(frozen=True)
class Reading:
    """How to read: what to do with a bad row, and the choices a format cannot know by itself."""

    problem: Problem = refuse
    strict: bool = False
    one_based: bool = False  # ids of numbered formats start at 1
    separator: str = "|"  # between labels in one CSV cell
    fields: tuple[str, ...] = ("title", "content")  # joined to one text where a row has no `text`
    language: str = "en"  # of SKOS names


@dataclass
class Notes:
    """Counts what is kept but odd, with the first place of each; strict reading refuses it instead."""

    file: object
    reading: Reading
    seen: dict[str, list[Any]] = field(default_factory=dict)  # what -> [count, first line, example]

    def odd(self, what: str, line: int, example: str = "", *, refuse_strict: bool = True) -> None:
        if refuse_strict and self.reading.strict:
            self.reading.problem(
                DataError(f"{what}{example}. Mend the row, or read without strict.", file=self.file, line=line)
            )
        self.seen.setdefault(what, [0, line, example])[0] += 1

    def sentences(self) -> list[str]:
        return [
            f"{self.file}:{line}: {what}{example}; kept{f' ({count:,} times)' if count > 1 else ''}."
            for what, (count, line, example) in self.seen.items()
        ]


class LabelTable:
    """Columns of labels: a fixed set when there is a labels file, else in order of first appearance."""

    def __init__(self, fixed: LabelSet | None, *, numbered: bool = False) -> None:
        self.fixed = fixed
        self.numbered = numbered
        self.columns: dict[str, int] = {} if fixed is None or numbered else dict(fixed.columns)
        self.open = fixed is None  # a new label is nothing odd
        self.new: list[str] = []
        self._names: dict[str, int] | None = None

    def __len__(self) -> int:
        return (0 if self.fixed is None else len(self.fixed)) + len(self.new)

    def close(self) -> None:
        """From now on a new label is unknown: kept, counted and warned about."""
        self.open = False

    def find(self, key: Any) -> int | None:
        """The column of an id, or of a name that only one label carries."""
        column = self.columns.get(key)
        if column is None and self.fixed is not None and len(self.fixed):
            if self._names is None:
                self._names = {}
                for place, name in enumerate(self.fixed.names):
                    self._names[name] = -1 if name in self._names else place
            column = self._names.get(key)
            if column == -1:
                raise KeyError(key)
        return column

    def add(self, key: str) -> int:
        column = len(self)
        self.columns[key] = column
        self.new.append(key)
        return column

    def labels(self) -> LabelSet:
        return LabelSet.of(self.new) if self.fixed is None else self.fixed.extended(self.new)


class _Values:
    """A column of numbers that exists only once a row brings one; earlier rows get the default."""

    def __init__(self, code: str, default: float) -> None:
        self.code, self.default = code, default
        self.made: array[Any] | None = None

    def extend(self, values: Sequence[float] | None, count: int, before: int) -> None:
        if values is None:
            if self.made is not None:
                self.made.extend([self.default] * count)
            return
        if self.made is None:
            self.made = array(self.code, [self.default]) * before
        self.made.extend(values)

    def array(self, dtype: Any) -> NDArray[Any] | None:
        return None if self.made is None else np.frombuffer(self.made, dtype=dtype)


class _Matrix:
    """Ready-made features row by row; `width` is what a header promised, or None to grow."""

    def __init__(self, width: int | None) -> None:
        self.width = width
        self.indptr, self.places, self.values = array("q", [0]), array("i"), array("f")

    def skip_to(self, rows: int) -> None:
        while len(self.indptr) <= rows:
            self.indptr.append(len(self.places))

    def add(self, places: NDArray[np.int64], values: NDArray[np.float32]) -> None:
        self.places.frombytes(places.astype(np.int32).tobytes())
        self.values.frombytes(values.astype(np.float32).tobytes())
        self.indptr.append(len(self.places))

    def build(self, rows: int) -> Csr:
        self.skip_to(rows)
        places = np.frombuffer(self.places, np.int32)
        width = int(places.max(initial=-1)) + 1 if self.width is None else self.width
        parts = (np.frombuffer(self.values, np.float32), places, np.frombuffer(self.indptr, np.int64))
        made = sparse.csr_matrix(parts, shape=(rows, width), copy=True)
        made.sum_duplicates()
        return made


class Builder:
    """Collects the rows of one split; `build` gives the Dataset and warns about what was odd."""

    def __init__(self, file: object, labels: LabelTable, reading: Reading, widths: Mapping[str, int]) -> None:
        self.file, self.labels, self.reading = file, labels, reading
        self.notes = Notes(file, reading)
        self._texts = TextsBuilder()
        self._ids: TextsBuilder | None = None
        self._indptr, self._columns = array("q", [0]), array("i")
        self._targets, self._relevance, self._roles = _Values("f", 1), _Values("f", 1), _Values("B", 0)
        self._features = {name: _Matrix(width) for name, width in widths.items()}

    def __len__(self) -> int:
        return len(self._texts)

    def fault(self, row: Row, reason: str) -> None:
        self.reading.problem(DataError(reason, file=self.file, line=row.line))

    def add(self, row: Row) -> None:
        """Take one row; a faulty one is reported and, if the report does not raise, left out."""
        columns = self.columns(row)
        if columns is None or not self._fits(row, "targets", 1.0) or not self._fits(row, "relevance", math.inf):
            return
        if row.features is not None and not all(self._features_fit(row, name, x) for name, x in row.features.items()):
            return
        targets, relevance = row.targets, row.relevance
        if not columns:
            self.notes.odd("row without labels", row.line)
        elif len(set(columns)) < len(columns):
            self.notes.odd("the same label twice in one row (merged)", row.line)
            columns, targets, relevance = _merge(columns, targets, relevance)
        if not row.text and row.features is None:
            self.notes.odd("row with an empty text", row.line, refuse_strict=False)
        before = len(self._columns)
        self._targets.extend(targets, len(columns), before)
        self._relevance.extend(relevance, len(columns), before)
        self._roles.extend([row.role] if row.role else None, 1, len(self))
        self._add_id(row.id)
        for name, matrix in (row.features or {}).items():
            self._matrix(name).add(*matrix)
        self._columns.extend(columns)
        self._indptr.append(len(self._columns))
        self._texts.add(row.text)

    def _matrix(self, name: str) -> _Matrix:
        matrix = self._features.setdefault(name, _Matrix(None))
        matrix.skip_to(len(self))
        return matrix

    def _add_id(self, id_: str | None) -> None:
        if id_ is not None and self._ids is None:
            self._ids = TextsBuilder()
            for _ in range(len(self)):
                self._ids.add("")
        if self._ids is not None:
            self._ids.add(id_ or "")

    def columns(self, row: Row) -> list[int] | None:
        """Columns of a row's labels, or None after a fault."""
        if self.labels.numbered:
            return self._numbered(row)
        try:
            known = self.labels.columns
            return [known[key] for key in row.labels]
        except (KeyError, TypeError):
            made = [self._column(row, key) for key in row.labels]
            return None if None in made else made  # type: ignore[return-value]

    def _column(self, row: Row, key: Any) -> int | None:
        if type(key) is int:
            key = str(key)
        if type(key) is not str or not key:
            said = "an empty string" if key == "" else f"{type(key).__name__} {key!r}"
            self.fault(row, f'a label is {said}. Labels are strings (or whole numbers), such as "cat".')
            return None
        try:
            column = self.labels.find(key)
        except KeyError:
            self.fault(row, f"label '{key}' is the name of several labels. Use the id instead.")
            return None
        if column is None:
            if not self.labels.open:
                where = "train" if self.labels.fixed is None else "the labels file"
                self.notes.odd(f"label unknown to {where}", row.line, f": '{key}'")
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

    def _fits(self, row: Row, what: str, top: float) -> bool:
        values = getattr(row, what)
        if values is None:
            return True
        if len(values) != len(row.labels):
            self.fault(row, f"{len(values)} {what} for {len(row.labels)} labels. Give one number per label.")
            return False
        for value in values:
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not 0 <= value <= top
                or value == math.inf
            ):
                allowed = (
                    "a number from 0 to 1; put weights into 'relevance'" if top == 1.0 else "a finite number, 0 or more"
                )
                self.fault(row, f"{what} has {value!r}. Allowed is {allowed}.")
                return False
        return True

    def _features_fit(self, row: Row, name: str, matrix: Sparse) -> bool:
        places, values = matrix
        width = self._matrix(name).width
        if len(places) and (places.min() < 0 or (width is not None and places.max() >= width)):
            bad = int(next(p for p in places if p < 0 or (width is not None and p >= width)))
            shift = self.reading.one_based
            self.fault(row, out_of_range("feature", bad + shift, width, shift))
            return False
        if not np.isfinite(values).all():
            self.fault(row, "a feature value is NaN or infinite. Allowed are finite numbers; mend or drop the row.")
            return False
        if len(places) != len(np.unique(places)):
            self.notes.odd("the same feature twice in one row (values added)", row.line)
        return True

    def build(self, **more: Any) -> Dataset:
        for sentence in self.notes.sentences():
            logger.warning(sentence)
        rows, shape = len(self), (len(self), len(self.labels))
        indptr, indices = np.frombuffer(self._indptr, np.int64), np.frombuffer(self._columns, np.int32)

        def matrix(values: NDArray[Any] | None) -> Csr:
            data = np.ones(len(indices), np.float32) if values is None else values.astype(np.float32)
            made = sparse.csr_matrix((data, indices.copy(), indptr.copy()), shape=shape)
            made.sort_indices()
            return made

        relevance = self._relevance.array(np.float32)
        return Dataset(
            self._texts.build(),
            matrix(self._targets.array(np.float32)),
            self.labels.labels(),
            ids=None if self._ids is None else self._ids.build(),
            roles=self._roles.array(np.uint8),
            features={name: part.build(rows) for name, part in self._features.items()},
            relevance=None if relevance is None else matrix(relevance),
            **more,
        )


def out_of_range(what: str, found: int, total: int | None, one_based: bool) -> str:
    """The sentence for an id outside the promised range; says when ids seem to start at 1."""
    low, high = int(one_based), "" if total is None else str(total - 1 + one_based)
    sentence = (
        f"{what} {found} is out of range. Allowed is {low} to {high}" if high else f"{what} {found} is below {low}"
    )
    if not one_based and found == total:
        return f"{sentence}; ids seem to start at 1: read with one_based=True (--one-based)."
    if one_based and found == 0:
        return f"{sentence}; ids seem to start at 0: read without one_based."
    return f"{sentence}. Mend the row or the header."


def _merge(
    columns: list[int], targets: Sequence[float] | None, relevance: Sequence[float] | None
) -> tuple[list[int], list[float] | None, list[float] | None]:
    """Each column once, with the largest of its values."""
    kept = list(dict.fromkeys(columns))

    def best(values: Sequence[float] | None) -> list[float] | None:
        if values is None:
            return None
        largest: dict[int, float] = {}
        for column, value in zip(columns, values, strict=True):
            largest[column] = max(value, largest.get(column, 0.0))
        return [largest[column] for column in kept]

    return kept, best(targets), best(relevance)
