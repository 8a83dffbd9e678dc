"""Read a split of anything: a folder, a file, a bundled name, or a Hugging Face data set."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from treetop.core.dataset import Dataset, Ints
from treetop.core.errors import DataError, InputError
from treetop.core.log import logger
from treetop.core.steady import FileStates, read_steadily
from treetop.core.texts import readable
from treetop.data import catalog, detect
from treetop.data.build import Builder
from treetop.data.format import SPLITS, Source, Split
from treetop.data.formats import huggingface
from treetop.data.parse.documents import KINDS
from treetop.data.parse.lines import refuse_row
from treetop.data.parse.rows import Reading, Row, shown
from treetop.data.parse.skipped import Skipped
from treetop.data.parse.space import LabelTable
from treetop.data.row_checks import out_of_range

T = TypeVar("T")


def read(path: Any, split: str = "train", *, strict: bool = False, **options: Any) -> Dataset:
    """One split as a Dataset; "test" has the columns of "train" for all labels known there.

    `options` are the other fields of `Reading`: one_based, separator, fields, label_field, language, text_language,
    sheet, join_labels, and skip, a `Skipped` that collects bad rows.

    >>> len(read("wordnet", "test"))
    12999
    """

    def once() -> Dataset:
        restart()
        source = find(path)
        return Reader(source, reading(source, strict=strict, **options)).read(SPLITS.get(split, split))

    restart = _restart(options.get("skip"))
    return _steadily(path, once)


def read_all(path: Any, *, strict: bool = False, **options: Any) -> dict[str, Dataset]:
    """Every split, all with the same columns: labels known first, then those of train, then the rest."""

    def once() -> dict[str, Dataset]:
        restart()
        source = find(path)
        reader = Reader(source, reading(source, strict=strict, **options))
        splits = {name: reader.read(name) for name in source_splits(source)}
        labels = reader.table.labels()
        return {name: widen(data, labels) for name, data in splits.items()}

    restart = _restart(options.get("skip"))
    return _steadily(path, once)


def _restart(skip: Skipped | None) -> Callable[[], None]:
    """Forgets the bad rows of this read, so that files that changed can be read again."""
    if skip is not None and not isinstance(skip, Skipped):
        raise InputError(f"skip: expected a treetop.Skipped(), got {type(skip).__name__}.")
    before = {} if skip is None else dict(skip.rows)

    def restart() -> None:
        if skip is not None:
            skip.rows = dict(before)

    return restart


def splits(path: str | Path) -> list[str]:
    """Names of the splits of a folder, a file or a bundled name."""
    return source_splits(detect.find(path))


def _steadily(path: Any, read: Callable[[], T]) -> T:
    """The result of `read` on one state of the files at `path`; if they change, they are read again."""
    if not isinstance(path, str | Path):
        return read()
    unsteady = DataError("kept changing while it was read. Wait until nothing writes to it.", file=path)
    endings = detect.ENDINGS | {".npz", ".npy", ".arrow", ".key", *KINDS}
    return read_steadily(
        lambda: nullcontext(FileStates(Path(path), endings, SPLITS)), lambda _: read(), unsteady, tries=3
    )


def find(path: Any) -> Source:
    """The source behind a path, a name or a data set object, with what was detected in the log."""
    if not isinstance(path, str | Path):
        found = huggingface.from_object(path)
        if found is None:
            raise InputError(f"data: expected a path, a name or a Hugging Face Dataset, got {type(path).__name__}.")
        source, path = found, type(path).__name__
    else:
        source = detect.find(path)
        source = dataclasses.replace(source, name=readable(source.name or Path(path).resolve().name))  # none: "."
    logger.info("%s: format %s, splits %s", path, source.format, ", ".join(source_splits(source)))
    return source


def source_splits(source: Source) -> list[str]:
    """Names of the splits, train first; a single file counts once."""
    order = sorted(source.splits, key=lambda name: ("train", "valid", "test", name).index(name))
    first = {id(source.splits[name]): name for name in reversed(order)}
    return [name for name in order if first[id(source.splits[name])] == name]


def reading(source: Source, **options: Any) -> Reading:
    """How to read a source: the user's choices, else what the source or the catalogue knows."""
    instead = catalog.facts(source.name).get("fields")
    skip = options.get("skip")
    options.setdefault("problem", refuse_row if skip is None else skip.problem)
    return Reading(**options, **({"instead": instead} if instead else {}))


class Reader:
    """Reads splits of one source into one growing label space."""

    def __init__(self, source: Source, reading: Reading) -> None:
        reading = dataclasses.replace(reading, text_language=reading.text_language or source.language)
        self.source, self.reading = source, reading
        self.table = LabelTable(
            source.labels(reading.exact), numbered=source.numbered, join=reading.join_labels, known=reading.spellings
        )
        self.widths = dict(source.widths(reading.exact))
        self.least: dict[str, int] = {}  # widths seen so far, where nothing promises them

    def read(self, name: str) -> Dataset:
        """One split; labels it brings stay known for the next."""
        builder, pairs = self.fill(name)
        constants = self.source.propensity or catalog.propensity(self.source.name)
        dataset = builder.build(
            weights=self.source.weights,
            propensity=constants,
            name=self.source.name,
            filter_pairs=pairs,
            language=self.reading.text_language,
        )
        self.least = {key: X.shape[1] for key, X in dataset.features.items() if key not in self.widths}
        return dataset

    def fill(self, name: str) -> tuple[Builder, Ints | None]:
        """A builder with the rows of a split, and its filter pairs: the work of reading."""
        split, train = self._split(name), self.source.splits.get("train")
        if self.table.open and train is not None and split is not train:
            self._learn(train)
        builder = Builder(split.file, self.table, self.reading, widths=self.widths, least=self.least)
        rows, skip = 0, self.reading.skip
        before = 0 if skip is None else skip.reports
        for row in self._rows(split, self.reading):
            builder.add(row)
            rows += 1
        self.table.close()
        if skip is not None and skip.reports > before:
            self._refuse_filter(split)
        found = list(self._pairs(split, rows))
        return builder, np.array(found, np.int64).reshape(-1, 2) if found else None

    def _split(self, name: str) -> Split:
        if name not in self.source.splits:
            found = {split: self.source.splits[split].file for split in source_splits(self.source)}
            there = ", ".join(f"{split} in {file}" for split, file in found.items())
            raise DataError(
                f"no split '{name}' (found: {there}). Choose one of these, or add a file for '{name}'.",
                file=self.source.name,
            )
        return self.source.splits[name]

    def _refuse_filter(self, split: Split) -> None:
        """Filter pairs name rows by number, which rows that are left out would change."""
        if split.filter is not None and next(iter(split.filter(self.reading.exact)), None) is not None:
            sentence = f"counts rows of {split.file}, of which bad ones would be left out. Fix them, or remove it."
            raise DataError(sentence, file=split.filter_file)

    @staticmethod
    def _rows(split: Split, reading: Reading) -> Iterator[Row]:
        return split.rows(reading) if reading.skip is None else reading.skip.without(split.rows(reading))

    def _learn(self, train: Split) -> None:
        """Labels of train in order of appearance, so that another split gets the same columns."""
        quiet = dataclasses.replace(self.reading, strict=False)
        builder = Builder(train.file, self.table, quiet)
        for row in self._rows(train, quiet):
            builder.checks.columns(row)
            for name, (places, _) in (row.features or {}).items():
                self.least[name] = max(self.least.get(name, 0), int(places.max(initial=-1)) + 1)
        self.least = {name: width for name, width in self.least.items() if name not in self.widths}
        self.table.close()

    def _column(self, key: Any) -> int | None:
        if type(key) is int:  # formats that number labels
            return key - self.reading.one_based
        try:
            return self.table.find(self.table.spelled(key))
        except KeyError:  # a name of several labels
            return None

    def _pairs(self, split: Split, rows: int) -> Iterator[tuple[int, int]]:
        for line, row, key in split.filter(self.reading.exact) if split.filter is not None else ():
            column = self._column(key)
            if not 0 <= row < rows:
                sentence = out_of_range("row", row, rows, False)
            elif column is None or not 0 <= column < len(self.table):
                sentence = f"filter pair names the unknown label {shown(key)}. Fix or drop the line."
            else:
                yield row, column
                continue
            self.reading.exact.problem(DataError(sentence, file=split.filter_file, line=line))


def widen(data: Dataset, labels: Any) -> Dataset:
    """The same rows with columns for labels that other splits brought."""
    if data.n_labels == len(labels):
        return data
    relevance = None if data.relevance is None else _wide(data.relevance, len(labels))
    return dataclasses.replace(data, Y=_wide(data.Y, len(labels)), labels=labels, relevance=relevance)


def _wide(matrix: Any, width: int) -> Any:
    if matrix.shape[1] == width:
        return matrix
    return type(matrix)((matrix.data, matrix.indices, matrix.indptr), shape=(matrix.shape[0], width))
