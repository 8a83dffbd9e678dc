"""Shared by formats with numbered labels: sparse text rows, label lines, filter files, weights."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from treetop.core.dataset import Dataset, LabelSet
from treetop.core.errors import DataError, InputError, ResourceError
from treetop.core.forecast import available_memory, size
from treetop.data.format import Writing
from treetop.data.parse.lines import Incomplete, Problem, lines, writer
from treetop.data.parse.rows import Reading, Sparse

LABEL_BYTES = 400  # memory per label while a data set is read
LARGEST = 2**31 - 1  # rows, features or labels
PIECE = 1 << 20  # characters of a line that are parsed at a time
BLANK = re.compile(r"\s")
SHORT = {"train": "trn", "test": "tst", "valid": "val"}
FILTERS = {split: (f"filter_labels_{split}.txt", f"{short}_filter_labels.txt") for split, short in SHORT.items()}


def existing(folder: Path, *names: str) -> Path | None:
    """The first of these files that exists, plain or with .gz."""
    for name in names:
        for file in (folder / name, folder / (name + ".gz")):
            if file.is_file():
                return file
    return None


def is_plain(text: str) -> bool:
    """Whether numbers in a text are written as every tool reads them; int() and float() take '1_0' and '٣' as well."""
    return text.isascii() and "_" not in text


def is_whole(word: str) -> bool:
    """Whether a word is a whole number of 0 or more."""
    return word.isascii() and word.isdigit() and len(word) < 20


def parse_float(word: str) -> float:
    """The number a word represents, else ValueError."""
    if not is_plain(word):
        raise ValueError(f"{word[:40]!r} is not a number")
    return float(word)


def parse_pairs(text: str, shift: int = 0) -> Sparse:
    """Columns and values of 'f:v f:v'; ValueError says what is wrong. A long line is read in pieces, to save memory."""
    if len(text) <= PIECE:
        return _parse_piece(text, shift)
    parts, start = [], 0
    while start < len(text):
        blank = BLANK.search(text, start + PIECE)
        stop = len(text) if blank is None else blank.start()
        parts.append(_parse_piece(text[start:stop], shift))
        start = stop
    return np.concatenate([places for places, _ in parts]), np.concatenate([values for _, values in parts])


def _parse_piece(text: str, shift: int) -> Sparse:
    pairs, flat = text.split(), text.replace(":", " ").split()
    try:
        if not is_plain(text):
            raise ValueError
        # splitting all at once is faster than pair by pair, but must not accept "1:2:3 4" or "1: 2"
        if len(flat) != 2 * len(pairs) or text.count(":") != len(pairs) or not all(":" in pair for pair in pairs):
            raise ValueError
        places = np.array(list(map(int, flat[::2])), np.int64)
        with np.errstate(over="ignore"):  # too large becomes infinite, which the builder reports
            return places - shift, np.array(list(map(float, flat[1::2]))).astype(np.float32)
    except (ValueError, OverflowError):
        bad = next((pair for pair in pairs if not _is_pair(pair)), text)
        raise ValueError(f"'{bad[:40]}' is not a pair of a whole number and a value, such as 12:0.5.") from None


def _is_pair(pair: str) -> bool:
    place, colon, value = pair.partition(":")
    try:
        float(value)
        return bool(colon) and is_plain(pair) and abs(int(place)) < 2**62
    except ValueError:
        return False


def format_pairs(places: Any, values: Any) -> str:
    """'f:v f:v' with enough digits for float32."""
    return " ".join(f"{place}:{value:.9g}" for place, value in zip(places.tolist(), values.tolist(), strict=True))


def read_header(file: Path, count: int) -> tuple[int, ...]:
    """The whole numbers of the first line."""
    first = next(lines(file), (1, ""))[1].split()
    if len(first) != count or not all(map(is_whole, first)):
        wanted = " ".join(("rows", "features", "labels")[:count]) if count == 3 else "rows columns"
        raise DataError(
            f"expected a header of {count} whole numbers '{wanted}', got {' '.join(first)[:40]!r}.", file=file, line=1
        )
    numbers = tuple(map(int, first))
    if max(numbers) > LARGEST:
        raise DataError(f"the header promises {max(numbers):,}; at most {LARGEST:,} are read.", file=file, line=1)
    return numbers


def body(file: Path, promised: int, problem: Problem) -> Iterator[tuple[int, str]]:
    """Lines after the header, including empty ones; reports more or fewer lines than the header declares."""
    number = seen = 0
    for number, line in lines(file, problem):
        if number == 1:
            continue
        if seen == promised:
            if not line.strip():
                continue  # blank lines at the end are not rows
            sentence = f"the header promises {promised:,} rows but more follow. Fix the header."
            problem(Incomplete(sentence, file=file, line=number))
            return
        seen += 1
        yield number, line
    if seen < promised:
        sentence = f"the header promises {promised:,} rows but the file ends after {seen:,}."
        problem(Incomplete(f"{sentence} Copy the file again, or fix the header.", file=file, line=number))


def number_ids(count: int) -> LabelSet:
    """Labels known only by column number; more than fit into memory are refused up front."""
    needed, free = LABEL_BYTES * count, available_memory()
    if needed > free:
        raise ResourceError(
            f"labels: {count:,} of them need about {size(needed)} of memory, {size(free)} are free. "
            "Fix the header if it promises too many."
        )
    return LabelSet.of([str(column) for column in range(count)])


def line_labels(file: Path, count: int, reading: Reading) -> LabelSet:
    """Labels with one text per line; their ids are the column numbers."""
    texts = [line for _, line in lines(file, reading.problem)]
    if len(texts) != count:
        raise DataError(
            f"{len(texts):,} label texts for {count:,} labels. One line per label is needed, empty lines too.",
            file=file,
        )
    return LabelSet.of([str(column) for column in range(count)], texts=texts)


def write_label_lines(writing: Writing, name: str) -> None:
    """One label text per line, if any label has one."""
    if any(writing.labels.texts.lengths()):
        with writer(writing.file(name)) as out:
            for column, text in enumerate(writing.labels.texts):
                out.write(writing.one_line(text, column) + "\n")


def filter_pairs(file: Path) -> Callable[[Reading], Iterator[tuple[int, int, int]]]:
    """(line, row, label number) from 'row label' lines."""

    def pairs(reading: Reading) -> Iterator[tuple[int, int, int]]:
        for number, line in lines(file, reading.problem):
            words = line.split()
            if len(words) == 2 and all(map(is_whole, words)):
                yield number, int(words[0]) - reading.one_based, int(words[1])
            elif words:
                sentence = f"expected 'row label', two whole numbers, got {line[:40]!r}."
                reading.problem(DataError(sentence, file=file, line=number))

    return pairs


def write_filters(writing: Writing) -> None:
    """filter_labels_train.txt and so on, where there are pairs."""
    for split, data in writing.splits.items():
        if data.filter_pairs is not None and len(data.filter_pairs):
            with writer(writing.file(FILTERS[split][0])) as out:
                for row, column in data.filter_pairs.tolist():
                    out.write(f"{row} {column}\n")


def weights(data: Dataset, lossy: bool) -> Any:
    """The one value per label that these formats can store: soft targets, or relevance if any exceeds 1.

    Readers distinguish the two by the largest value, so both together, or relevance up to 1, cannot be stored.
    """
    if data.relevance is None:
        return data.Y.data
    if not lossy and ((data.Y.data != 1).any() or data.relevance.data.max(initial=0) <= 1):
        raise InputError(
            f"{data.name}: this format holds one value per label, and reads values up to 1 as soft targets: relevance "
            "weights would be lost. Allow it with lossy=True (--lossy), or write jsonl."
        )
    return data.relevance.data if data.relevance.data.max(initial=0) > 1 else data.Y.data
