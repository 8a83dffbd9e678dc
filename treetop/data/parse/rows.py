"""A row as a format returns it, how to read rows, and notes about odd ones."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treetop.core.errors import DataError, InputError
from treetop.data.parse.lines import Problem, refuse
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


@dataclass(frozen=True)
class Reading:
    """How to read: the handler of bad rows, and options that a file cannot specify itself."""

    problem: Problem = refuse
    strict: bool = False
    one_based: bool = False  # ids of numbered formats start at 1
    separator: str = "|"  # between labels in one CSV cell
    fields: Sequence[str] | None = None  # joined to one text, whatever `text` holds
    label_field: str = "labels"  # holds a row's labels
    instead: Sequence[str] = ("title", "content")  # the same where a row has no `text` and no fields are chosen
    language: str = "en"  # of SKOS names

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
    seen: dict[str, list[Any]] = field(default_factory=dict)  # what -> [count, first line, example]

    def odd(self, what: str, line: int, example: str = "", *, refuse_strict: bool = True) -> None:
        if refuse_strict and self.reading.strict:
            self.reading.problem(
                DataError(f"{what}{example}. Fix the row, or read without strict.", file=self.file, line=line)
            )
        self.seen.setdefault(what, [0, line, example])[0] += 1

    def sentences(self) -> list[str]:
        return [
            f"{self.file}:{line}: {what}{example}; kept{f' ({count:,} times)' if count > 1 else ''}."
            for what, (count, line, example) in self.seen.items()
        ]
