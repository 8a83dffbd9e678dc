"""fastText lines: "__label__a __label__b the text"."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from treetop.core.errors import DataError, InputError
from treetop.data.format import Format, Head, Writing
from treetop.data.parse.lines import lines, writer
from treetop.data.parse.rows import Reading, Row

PREFIX = "__label__"


def sniff(head: Head) -> bool:
    """A line starts with a label (the first ones may have none)."""
    return any(line.lstrip().startswith(PREFIX) for line in head.lines)


def rows(file: Path, reading: Reading) -> Iterator[Row]:
    """Rows of a fastText file; labels may be anywhere in the line, as in fastText."""
    for number, line in lines(file, reading.problem):
        labels = []
        while line.startswith(PREFIX):
            word, _, line = line.partition(" ")
            labels.append(word.removeprefix(PREFIX))
        if PREFIX in line:
            words = line.split()
            labels += [word.removeprefix(PREFIX) for word in words if word.startswith(PREFIX)]
            line = " ".join(word for word in words if not word.startswith(PREFIX))
        if "" in labels:
            sentence = f"'{PREFIX}' without a name after it. Write {PREFIX}cat, without a blank."
            reading.problem(DataError(sentence, file=file, line=number))
            continue
        yield Row(number, line, labels)


def write(writing: Writing) -> None:
    """train.txt and test.txt."""
    ids = [writing.word(id_, " ", PREFIX) for id_ in writing.labels.ids]
    for split, data in writing.splits.items():
        with writer(writing.file(f"{split}.txt")) as out:
            for i, text in enumerate(data.texts):
                labels = [ids[column] for column in data.Y.indices[data.Y.indptr[i] : data.Y.indptr[i + 1]]]
                out.write(" ".join([*labels, _text(writing, text, i)]) + "\n")


def _text(writing: Writing, text: str, row: int) -> str:
    line = writing.one_line(text, row)
    if PREFIX not in line:
        return line
    if not writing.lossy:
        raise InputError(
            f"row {row}: the text has '{PREFIX}', which fastText reads as a label. Allow a blank in it with "
            "lossy=True (--lossy), or write jsonl."
        )
    return line.replace(PREFIX, "__ label__")


FORMAT = Format("fasttext", frozenset({"texts", "label ids"}), write, sniff=sniff, rows=rows)
