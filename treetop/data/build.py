"""Builds a Dataset from rows of any format, which `row_checks.py` checks; counts oddities."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treetop.core import spill
from treetop.core.dataset import Csr, Dataset
from treetop.core.log import logger
from treetop.core.texts import Texts, TextsBuilder
from treetop.data.parse.lines import Incomplete
from treetop.data.parse.rows import Notes, Reading, Row, place
from treetop.data.parse.space import LabelTable
from treetop.data.parse.surrogates import has_lone
from treetop.data.row_checks import RowChecks

NOTHING_MORE = Row(0, "", ())[3:]


class _Values:
    """A column of numbers that is created when a row first has one; earlier rows get the default."""

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
    """Precomputed features row by row; `width` is declared by a header, or None to grow from `least`."""

    def __init__(self, width: int | None, least: int = 0) -> None:
        self.width, self.least = width, least
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
        width = max(int(places.max(initial=-1)) + 1, self.least) if self.width is None else self.width
        parts = (np.frombuffer(self.values, np.float32), places, np.frombuffer(self.indptr, np.int64))
        matrix = sparse.csr_matrix(parts, shape=(rows, width), copy=True)
        matrix.sum_duplicates()
        return matrix


class Builder:
    """Collects the rows of one split; `build` returns the Dataset and warns about oddities."""

    def __init__(
        self,
        file: object,
        labels: LabelTable,
        reading: Reading,
        *,
        widths: Mapping[str, int] | None = None,
        least: Mapping[str, int] | None = None,
    ) -> None:
        self.file, self.labels, self.reading = file, labels, reading
        self.notes = Notes(file, reading)
        self._plain = True  # so far no row has more than text and labels
        self._texts = TextsBuilder()
        self._ids: TextsBuilder | None = None
        self._indptr, self._columns = array("q", [0]), array("i")
        self._targets, self._relevance, self._roles = _Values("f", 1), _Values("f", 1), _Values("B", 0)
        self._features = {name: _Matrix(width) for name, width in (widths or {}).items()}
        self._features |= {name: _Matrix(None, width) for name, width in (least or {}).items()}
        self.checks = RowChecks(file, labels, reading, self.notes, lambda name: self._matrix(name).width)

    def __len__(self) -> int:
        return len(self._texts)

    @property
    def texts(self) -> Texts:
        """The texts so far."""
        return self._texts.build()

    @property
    def has_labels(self) -> bool:
        """Whether any row has a label."""
        return len(self._columns) > 0

    @property
    def has_features(self) -> bool:
        """Whether rows come with precomputed features, so that their texts may be empty."""
        return bool(self._features)

    def add(self, row: Row) -> None:
        """Add one row; a faulty one is reported and, if that does not raise, skipped."""
        columns = self.checks.columns(row)
        if columns is None or not self.checks.good(row):
            return
        targets, relevance = row.targets, row.relevance
        if not columns:
            self.notes.odd("row without labels", row)
        elif len(set(columns)) < len(columns):
            self.notes.odd("the same label twice in one row (merged)", row)
            columns, targets, relevance = _merge(columns, targets, relevance)
        if not row.text.isascii() and has_lone(row.text):
            self.notes.odd("half of a surrogate pair in a text (replaced by U+FFFD)", row)
        if not row.text and row.features is None:
            self.notes.odd("row with an empty text", row, refuse_strict=False)
        if self.reading.skip is not None and self.reading.skip.has(*place(row, self.file)):
            return
        if not self._plain or row[3:] != NOTHING_MORE:  # fast path: most rows are text and labels only
            self._plain = False
            self._add_more(row, targets, relevance, len(columns))
        self._columns.extend(columns)
        self._indptr.append(len(self._columns))
        self._texts.add(row.text)

    def _add_more(
        self, row: Row, targets: Sequence[float] | None, relevance: Sequence[float] | None, count: int
    ) -> None:
        before = len(self._columns)
        self._targets.extend(targets, count, before)
        self._relevance.extend(relevance, count, before)
        self._roles.extend([row.role] if row.role else None, 1, len(self))
        self._add_id(row.id)
        for name, matrix in (row.features or {}).items():
            self._matrix(name).add(*matrix)

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

    def build(self, *, weights: bool = False, **more: Any) -> Dataset:
        """The Dataset of all rows; with `weights`, relevance that never exceeds 1 becomes soft targets."""
        self._report()
        rows, shape = len(self), (len(self), len(self.labels))
        indptr, indices = np.frombuffer(self._indptr, np.int64), np.frombuffer(self._columns, np.int32)

        def matrix(values: NDArray[Any] | None) -> Csr:
            data = spill.empty(len(indices), np.float32)
            data[:] = 1.0 if values is None else values
            csr = sparse.csr_matrix((data, spill.copied(indices), indptr.copy()), shape=shape)
            csr.sort_indices()
            return csr

        targets, relevance = self._targets.array(np.float32), self._relevance.array(np.float32)
        if weights and relevance is not None and relevance.max(initial=0) <= 1:
            targets, relevance = relevance, None
        return Dataset(
            self._texts.build(),
            matrix(targets),
            self.labels.labels(),
            ids=None if self._ids is None else self._ids.build(),
            roles=self._roles.array(np.uint8),
            features={name: part.build(rows) for name, part in self._features.items()},
            relevance=None if relevance is None else matrix(relevance),
            **more,
        )

    def oddities(self) -> list[str]:
        """What is odd about the rows, in sentences; strict reading refuses ids that occur again."""
        sentences = self.notes.sentences()
        if again := self._repeated_ids():
            if self.reading.strict:
                sentence = f"{again}. Give each document an id of its own, or read without strict."
                self.reading.problem(Incomplete(sentence, file=self.file))
            sentences.append(f"{self.file}: {again}; kept. Answers cannot be matched to documents by these ids.")
        return sentences

    def _repeated_ids(self) -> str:
        """How many documents have the id of an earlier one, by 64-bit hashes; empty if none has."""
        if self._ids is None:
            return ""
        ids, roles = self._ids.build(), self._roles.array(np.uint8)
        rows = np.arange(len(ids)) if roles is None else np.flatnonzero(roles == 0)
        rows = rows[ids.lengths()[rows] > 0]
        hashes = np.fromiter(map(hash, ids.take(rows)), np.int64, len(rows))
        first = np.unique(hashes, return_index=True)[1]
        if len(first) == len(rows):
            return ""
        again = np.delete(rows, first)
        return f"{len(again):,} documents have the id of an earlier one, such as '{ids[int(again[0])]}'"

    def _report(self) -> None:
        for sentence in self.oddities():
            logger.warning(sentence)
        given = self._features.get("given")
        if given is None or not given.places or self.reading.one_based:
            return
        counted = self.labels.numbered and np.frombuffer(self._columns, np.int32).min(initial=1) > 0
        guessed = not self.labels.numbered and given.width is None
        if (counted or guessed) and np.frombuffer(given.places, np.int32).min() > 0:
            logger.warning(
                "%s: no feature or label has the id 0: ids may start at 1; kept as they are. If they do, read with "
                "one_based=True (--one-based).",
                self.file,
            )


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
