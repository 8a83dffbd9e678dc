"""Texts and labels that are already in memory: lists, sparse matrices, data frames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from typing import Any

import numpy as np
from scipy import sparse

from treetop.core.dataset import Dataset, LabelSet
from treetop.core.errors import InputError, did_you_mean
from treetop.core.texts import Texts, refuse_table
from treetop.data.build import Builder
from treetop.data.parse.rows import Reading, Row
from treetop.data.parse.space import LabelTable


def from_lists(texts: Iterable[str], labels: Any, label_names: Sequence[str] | LabelSet | None = None) -> Dataset:
    """A Dataset from texts and, for each text, a list of labels; or from a matrix of 0 and 1 (or soft targets).

    `label_names` fixes the columns; without it lists give labels in order of appearance, a matrix gives "0", "1", ...

    >>> data = from_lists(["a cat", "a dog"], [["pet"], ["pet", "dog"]])
    >>> list(data.labels.ids), data.Y.toarray().tolist()
    (['pet', 'dog'], [[1.0, 0.0], [1.0, 1.0]])
    """
    packed = _pack(texts)
    fixed = label_names if isinstance(label_names, LabelSet) or label_names is None else LabelSet.of(label_names)
    if sparse.issparse(labels) or (isinstance(labels, np.ndarray) and labels.ndim == 2):
        return _from_matrix(packed, labels, fixed)
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise InputError(f"labels: expected a list of labels for each text, got {type(labels).__name__}.")
    rows = list(labels) if not isinstance(labels, Sized) else labels
    if len(rows) != len(packed):
        raise InputError(f"labels: {len(rows):,} rows for {len(packed):,} texts. Give one list of labels per text.")
    builder = Builder("labels", LabelTable(fixed), Reading())
    for i, (text, row) in enumerate(zip(packed, rows, strict=True)):
        builder.add(Row(i, text, _row(i, row)))
    return builder.build()


def from_frame(frame: Any, text: str = "text", labels: str = "labels", separator: str | None = None) -> Dataset:
    """A Dataset from a data frame with one column of strings and one of lists of labels.

    Where the column holds strings such as "cat|dog", give the `separator` to split them at.
    """
    known = [str(column) for column in frame.columns]
    for column in (text, labels):
        if column not in known:
            raise InputError(f"frame: no column '{column}' (found: {', '.join(known)}).{did_you_mean(column, known)}")
    rows = list(frame[labels])
    if separator is not None:
        rows = [_pieces(i, row, separator) for i, row in enumerate(rows)]
    elif text_row := next(((i, row) for i, row in enumerate(rows) if isinstance(row, str)), None):
        raise InputError(
            f"frame: row {text_row[0]} of column '{labels}' is the string {text_row[1][:40]!r}, expected a list of "
            "labels. Give the separator, for example separator='|'."
        )
    return from_lists(list(frame[text]), rows)


def _pieces(i: int, cell: Any, separator: str) -> list[str]:
    if not isinstance(cell, str):
        if _missing(cell):
            return []
        raise InputError(f"labels: row {i} is {type(cell).__name__} {cell!r}, expected a string to split.")
    return [piece.strip() for piece in cell.split(separator) if piece.strip()]


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)


def _pack(texts: Any) -> Texts:
    if isinstance(texts, Texts):
        return texts
    if isinstance(texts, str):
        raise InputError("texts: expected a list of strings, got one string. Write [text].")
    refuse_table(texts)
    return Texts.of(_plain(text) for text in texts)


def _plain(text: Any) -> Any:
    return str(text) if isinstance(text, np.str_) else text


def _row(i: int, row: Any) -> list[Any]:
    if isinstance(row, str):
        raise InputError(
            f"labels: row {i} is the string {row[:40]!r}, expected a list of labels. "
            "Write [['a'], ['b', 'c']]: one list per text, even for one label; a column of a table is cut by "
            "table['labels'].str.split('|')."
        )
    if _missing(row):
        raise InputError(f"labels: row {i} is missing ({row}). Write an empty list [] for a text without labels.")
    if isinstance(row, set | frozenset):
        row = sorted(row)
    if not isinstance(row, Iterable):
        raise InputError(f"labels: row {i} is {type(row).__name__} {row!r}, expected a list of labels.")
    return [_label(i, label) for label in row]


def _label(i: int, label: Any) -> str | int:
    if isinstance(label, str):
        return str(label)
    if isinstance(label, int | np.integer) and not isinstance(label, bool):
        return int(label)
    raise InputError(
        f"labels: row {i} holds {type(label).__name__} {label!r}. Labels are strings (or whole numbers); "
        "remove missing values first."
    )


def _from_matrix(texts: Texts, labels: Any, fixed: LabelSet | None) -> Dataset:
    Y = sparse.csr_matrix(labels, dtype=np.float32)
    if Y.shape[0] != len(texts):
        raise InputError(f"labels: {Y.shape[0]:,} rows for {len(texts):,} texts. Give one row per text.")
    if fixed is None:
        fixed = LabelSet.of([str(column) for column in range(Y.shape[1])])
    if len(fixed) != Y.shape[1]:
        raise InputError(f"label_names: {len(fixed):,} names for {Y.shape[1]:,} columns. Give one per column.")
    return Dataset(texts, Y.copy(), fixed)
