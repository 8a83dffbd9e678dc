"""The AttentionXML (LightXML, CascadeXML) layout: train_raw_texts.txt and train_labels.txt, line by line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path

from treetop.core.errors import DataError
from treetop.data.format import Format, Source, Split, Writing
from treetop.data.parse.lines import Incomplete, lines, writer
from treetop.data.parse.numbered import existing
from treetop.data.parse.rows import Reading, Row

SEPARATOR = "/SEP/"  # between title and body


def find(folder: Path) -> Source | None:
    """A folder with train_labels.txt; raw texts are preferred to tokenised ones."""
    splits = {}
    for split in ("train", "test", "valid"):
        labels = existing(folder, f"{split}_labels.txt")
        if labels is None:
            continue
        texts = existing(folder, f"{split}_raw_texts.txt", f"{split}_texts.txt")
        if texts is None:
            raise DataError(f"there is no {split}_raw_texts.txt or {split}_texts.txt next to it. Add it.", file=labels)
        splits[split] = Split(texts, _rows(texts, labels))
    return Source("attentionxml", folder.name, splits) if splits else None


def _rows(texts: Path, labels: Path) -> Callable[[Reading], Iterator[Row]]:
    def rows(reading: Reading) -> Iterator[Row]:
        for text, label in zip_longest(lines(texts, reading.problem), lines(labels, reading.problem)):
            if text is None or label is None:
                short, long = (texts, labels) if text is None else (labels, texts)
                sentence = f"ends before {long.name}. Both need one line per row; copy them again."
                reading.problem(Incomplete(sentence, file=short, line=(text or label)[0] - 1))
                return
            yield Row(text[0], " ".join(text[1].split(SEPARATOR)), label[1].split())

    return rows


def write(writing: Writing) -> None:
    """train_raw_texts.txt, train_labels.txt and the same for other splits."""
    ids = [writing.word(id_, " ") for id_ in writing.labels.ids]
    for split, data in writing.splits.items():
        with writer(writing.file(f"{split}_raw_texts.txt")) as out:
            out.writelines(_text(writing, text, i) + "\n" for i, text in enumerate(data.texts))
        with writer(writing.file(f"{split}_labels.txt")) as out:
            for start, stop in zip(data.Y.indptr, data.Y.indptr[1:], strict=False):
                out.write(" ".join(ids[column] for column in data.Y.indices[start:stop]) + "\n")


def _text(writing: Writing, text: str, row: int) -> str:
    line = writing.one_line(text, row)
    if SEPARATOR in line and not writing.lossy:
        raise DataError(
            f"row {row}: the text has '{SEPARATOR}', which this format reads as a blank. Allow it with lossy=True "
            "(--lossy), or write jsonl."
        )
    return line


FORMAT = Format("attentionxml", frozenset({"texts", "label ids"}), write, find=find)
