"""The PECOS layout: X.trn.txt (texts), X.trn.npz (features), Y.trn.npz (targets), output-items.txt (label texts)."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from treetop.core.dataset import Csr, LabelSet
from treetop.core.errors import DataError
from treetop.core.forecast import available_memory
from treetop.data.format import Format, Source, Split, Writing
from treetop.data.parse.limits import Limits, how_to_raise
from treetop.data.parse.lines import Incomplete, lines, writer
from treetop.data.parse.numbered import (
    FILTERS,
    LARGEST,
    SHORT,
    existing,
    filter_pairs,
    line_labels,
    number_ids,
    weights,
    write_filters,
    write_label_lines,
)
from treetop.data.parse.rows import Reading, Row, shown

BROKEN = (
    OSError, ValueError, LookupError, EOFError, AttributeError, TypeError, ArithmeticError, MemoryError,
    NotImplementedError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
KINDS = ("csr", "csc", "coo")
ROW_BYTES = 16  # of the smallest row
FEATURES = ("X.{}.npz", "tfidf-attnxml/X.{}.npz")


def find(folder: Path) -> Source | None:
    """A folder with Y.trn.npz or Y.tst.npz."""
    there = {s: file for s, short in SHORT.items() if (file := existing(folder, f"Y.{short}.npz")) is not None}
    if not there:
        return None
    first = next(iter(there.values()))
    features = {s: existing(folder, *(name.format(SHORT[s]) for name in FEATURES)) for s in there}
    one = next((file for file in features.values() if file is not None), None)
    return Source(
        "pecos",
        folder.name,
        {split: _split(folder, split, file, features[split]) for split, file in there.items()},
        labels=lambda reading: _labels(folder, first, reading),
        numbered=True,
        widths=lambda reading: {} if one is None else {"given": shape(one)[1]},
        weights=True,
    )


def load(file: Path) -> Csr:
    """A sparse matrix from npz without pickles; its parts are checked, since scipy trusts them."""
    try:
        _check_size(file)
        matrix = sparse.load_npz(file)
        if matrix.format not in KINDS:
            raise ValueError(f"a matrix in '{matrix.format}' form, expected csr")
        if matrix.dtype.kind not in "biuf" or matrix.dtype.itemsize > 8:
            raise ValueError(f"values of type {matrix.dtype}, expected numbers")
        if matrix.format != "coo":
            matrix.check_format(full_check=True)  # before anything is computed with it
        return sparse.csr_matrix(matrix)
    except BROKEN as error:
        raise _damaged(file, error) from None


def _check_size(file: Path) -> None:
    """Refuse parts that unpack out of proportion, and a shape that numbers and memory have no room for."""
    limits = Limits.of_environment()
    with zipfile.ZipFile(file) as archive:
        for part in archive.infolist():
            if part.file_size > max(limits.line, limits.expansion * part.compress_size):
                raise ValueError(
                    f"'{part.filename[:40]}' unpacks to more than {limits.shown('expansion')} times its size; if that "
                    f"is right, {how_to_raise('expansion')}"
                )
    rows, _ = shape(file)
    if ROW_BYTES * rows > available_memory():
        raise ValueError(f"{rows:,} rows, which do not fit into memory")


def shape(file: Path) -> tuple[int, int]:
    """Rows and columns, without reading the values."""
    try:
        with np.load(file, allow_pickle=False) as parts:
            rows, columns = parts["shape"].tolist()
        if type(rows) is not int or type(columns) is not int or not (0 <= rows <= LARGEST and 0 <= columns <= LARGEST):
            raise ValueError(f"the shape {shown((rows, columns))}, expected two whole numbers up to {LARGEST:,}")
    except BROKEN as error:
        raise _damaged(file, error) from None
    return rows, columns


def _damaged(file: Path, error: Exception) -> DataError:
    if isinstance(error, DataError):
        return error
    reason = " ".join(str(error).split())[:300].rstrip(".") or type(error).__name__
    return DataError(f"not a sparse matrix in npz form ({reason}). Copy the file again.", file=file)


def _labels(folder: Path, targets: Path, reading: Reading) -> LabelSet:
    count = shape(targets)[1]
    file = existing(folder, "output-items.txt", "Y.txt", "raw/Y.txt")
    return number_ids(count) if file is None else line_labels(file, count, reading)


def _split(folder: Path, split: str, targets: Path, features: Path | None) -> Split:
    short = SHORT[split]
    texts = existing(folder, f"X.{short}.txt", f"raw/{short}_X.txt", f"{short}_X.txt")
    if texts is None and features is None:
        raise DataError(f"there is no X.{short}.txt and no X.{short}.npz next to it. Add one.", file=targets)
    pairs = existing(folder, *FILTERS[split])
    return Split(targets, _rows(targets, features, texts), None if pairs is None else filter_pairs(pairs), pairs)


def _rows(targets: Path, features: Path | None, texts: Path | None) -> Callable[[Reading], Iterator[Row]]:
    def rows(reading: Reading) -> Iterator[Row]:
        Y, X = load(targets), None if features is None else load(features)
        if X is not None and X.shape[0] != Y.shape[0]:
            sentence = f"{X.shape[0]:,} rows, but {targets.name} has {Y.shape[0]:,}. They must agree."
            raise DataError(sentence, file=features)
        hard = bool((Y.data == 1).all())
        text = iter([""] * Y.shape[0]) if texts is None else _text_lines(texts, Y.shape[0], targets, reading)
        for i, line in enumerate(text):
            labels, values = _row(Y, i)
            given = None if X is None else {"given": _row(X, i)}
            yield Row(i + 1, line, labels.tolist(), relevance=None if hard else values.tolist(), features=given)

    return rows


def _row(matrix: Csr, i: int) -> tuple[Any, Any]:
    span = slice(matrix.indptr[i], matrix.indptr[i + 1])
    return matrix.indices[span].astype(np.int64), matrix.data[span].astype(np.float32)


def _text_lines(file: Path, count: int, targets: Path, reading: Reading) -> Iterator[str]:
    number = 0
    for number, line in lines(file, reading.problem):
        if number > count:
            sentence = f"more texts than the {count:,} rows of {targets.name}. One line per row is needed."
            reading.problem(Incomplete(sentence, file=file, line=number))
            return
        yield line
    if number < count:
        sentence = f"fewer texts than the {count:,} rows of {targets.name}. One line per row is needed."
        reading.problem(Incomplete(sentence, file=file, line=number))


def write(writing: Writing) -> None:
    """X.trn.txt and X.trn.npz where there are texts and features, Y.trn.npz, output-items.txt."""
    for split, data in writing.splits.items():
        short, X = SHORT[split], data.features.get("given")
        Y = sparse.csr_matrix((weights(data, writing.lossy), data.Y.indices, data.Y.indptr), shape=data.Y.shape)
        sparse.save_npz(writing.folder / f"Y.{short}.npz", Y)
        if X is not None:
            sparse.save_npz(writing.folder / f"X.{short}.npz", X)
        if X is None or any(data.texts.lengths()):
            with writer(writing.file(f"X.{short}.txt")) as out:
                out.writelines(writing.one_line(text, i) + "\n" for i, text in enumerate(data.texts))
    write_label_lines(writing, "output-items.txt")
    write_filters(writing)


HOLDS = frozenset({"texts", "features", "soft", "relevance", "filter", "label texts", "unused"})
FORMAT = Format("pecos", HOLDS, write, find=find)
