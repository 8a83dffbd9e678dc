"""A row as a format returns it, how to read rows, and notes about odd ones."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treetop.core.errors import DataError, InputError
from treetop.core.log import logger
from treetop.data.parse.lines import Problem, refuse, refuse_row
from treetop.data.parse.skipped import Skipped
from treetop.data.parse.surrogates import without_lone

Sparse = tuple[NDArray[np.int64], NDArray[np.float32]]  # places and values of one row


_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60
_short.maxlevel = 3


def shown(value: object) -> str:
    """A value as a message shows it: its repr, cut where it is long or deep.

    >>> shown([1, "a"]), shown("x" * 100)[:8]
    ("[1, 'a']", "'xxxxxxx")
    """
    return _short.repr(value)


def listed(names: Iterable[object], most: int = 12) -> str:
    """Names as a message lists them: the first ones, and how many more there are."""
    every = [name if len(name) <= 60 else name[:57] + "..." for name in map(without_lone, map(str, names))]
    more = f" and {len(every) - most:,} more" if len(every) > most else ""
    return (", ".join(every[:most]) or "nothing") + more


class Row(NamedTuple):
    """One document as a format returns it; labels are ids or names, or column numbers where the format counts."""

    line: int
    text: str
    labels: Sequence[Any]
    targets: Sequence[float] | None = None  # parallel to `labels`, 0 to 1
    relevance: Sequence[float] | None = None  # parallel to `labels`
    id: str | None = None
    role: int = 0
    features: Mapping[str, Sparse] | None = None
    file: object = None  # of this row alone, where each row is a file


def place(row: Row, file: object) -> tuple[object, int | None]:
    """(file, line) of a row for messages; a row that is a file by itself has no line."""
    return (file, row.line) if row.file is None else (row.file, None)


@dataclass(frozen=True)
class Reading:
    """How to read: the handler of bad rows, and options that a file cannot specify itself."""

    problem: Problem = refuse
    strict: bool = False
    one_based: bool = False  # ids of numbered formats start at 1
    skip: Skipped | None = None  # collects bad rows instead of stopping at the first
    doubt: Callable[[str], None] = logger.warning  # takes a sentence about data that are readable but plainly wrong
    separator: str = "|"  # between labels in one CSV cell
    sheet: str | None = None  # of a spreadsheet; None: the first
    keep: Sequence[str] = ()  # fields of a text to predict that are kept beside its labels
    join_labels: bool = False  # labels that differ only in case or spaces are one
    spellings: Sequence[str] = ()  # labels that others are joined to, such as those of a model
    fields: Sequence[str] | None = None  # joined to one text, whatever `text` holds
    label_field: str = "labels"  # holds a row's labels
    instead: Sequence[str] = ("title", "content")  # the same where a row has no `text` and no fields are chosen
    language: str = ""  # of SKOS names; empty: that of the texts, else English
    text_language: str = ""  # of the texts, whatever the data say

    def __post_init__(self) -> None:
        if not isinstance(self.separator, str) or not self.separator:
            raise InputError(
                f"separator: {self.separator!r} is not a separator. Give the characters between labels, such as '|'."
            )
        names = [] if self.fields is None else self.fields
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            raise InputError(f"fields: {names!r} is not a list of names. Give one, such as ['title', 'content'].")
        if not isinstance(self.label_field, str) or not self.label_field:
            raise InputError(f"label_field: {self.label_field!r} is not a name. Give the field that holds the labels.")

    @property
    def exact(self) -> Reading:
        """The same for what lies beside the rows (labels, filter pairs), of which nothing is left out."""
        rows = self.skip is not None or self.problem is refuse_row
        return replace(self, problem=refuse, skip=None) if rows else self

    @property
    def names(self) -> Sequence[str]:
        """Fields that may hold a row's text."""
        return self.fields or ("text", *self.instead)


def each_row(
    records: Iterable[tuple[int, Any]], make: Callable[[int, Any, Reading], Row], file: object, reading: Reading
) -> Iterator[Row]:
    """The rows of numbered records; a bad one is reported with its line and left out."""
    for line, record in records:
        try:
            row = make(line, record, reading)
        except ValueError as error:
            reading.problem(DataError(str(error), file=file, line=line))
            continue
        yield row


@dataclass
class Notes:
    """Counts oddities that are kept, with the first line of each; strict reading refuses them instead."""

    file: object
    reading: Reading
    seen: dict[str, list[Any]] = field(default_factory=dict)  # what -> [count, first place, example]

    def odd(self, what: str, row: Row, example: str = "", *, refuse_strict: bool = True) -> bool:
        """Count an oddity; False where the row was refused for it and is left out."""
        file, line = place(row, self.file)
        if refuse_strict and self.reading.strict:
            sentence = f"{what}{example}. Fix the row, or read without strict."
            self.reading.problem(DataError(sentence, file=file, line=line))
            if self.reading.skip is not None:
                return False
        where = str(file) if line is None else f"{file}:{line}"
        self.seen.setdefault(what, [0, where, example])[0] += 1
        return True

    def sentences(self) -> list[str]:
        return [
            f"{where}: {what}{example}; kept{f' ({count:,} times)' if count > 1 else ''}."
            for what, (count, where, example) in self.seen.items()
        ]
