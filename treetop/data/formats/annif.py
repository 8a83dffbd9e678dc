"""Annif corpora: one "text TAB <uri> <uri>" per line, or CSV with text and subject_uris; labels as SKOS next to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from treetop.core.dataset import LabelSet
from treetop.core.errors import DataError
from treetop.data.format import Format, Head, Writing
from treetop.data.formats.skos import from_uri, to_uri, turtle
from treetop.data.parse.cells import cell_records
from treetop.data.parse.lines import lines, writer
from treetop.data.parse.rows import Reading, Row, listed
from treetop.data.sidecar import label_set

SUBJECTS = "subject_uris"


def sniff(head: Head) -> bool:
    """Mostly lines with one TAB followed only by URIs, or a header with subject_uris."""
    whole = head.lines[:-1] or head.lines  # the last may be cut off
    fitting = sum(re.fullmatch(r"[^\t]*\t\s*(<[^<>\s]+>\s*)*", line) is not None for line in whole)
    return _is_csv(head.line) or (bool(whole) and fitting > len(whole) / 2)


def _is_csv(first: str) -> bool:
    return SUBJECTS in [cell.strip(' "\r\n') for cell in first.split(",")]


def rows(file: Path, reading: Reading) -> Iterator[Row]:
    """Rows of an Annif TSV or CSV file."""
    source = lines(file, reading.problem, ends=True)
    number, first = next(source, (0, ""))
    if _is_csv(first):
        yield from _csv_rows(file, reading)
        return
    for place, line in chain([(number, first)], source):
        text, tab, uris = line.rstrip("\r\n").partition("\t")
        if not tab:
            if text.strip():
                sentence = "there is no TAB between text and subjects. Write text, TAB, <uri> <uri>."
                reading.problem(DataError(sentence, file=file, line=place))
            continue
        yield Row(place, text, _ids(uris))


def read_vocabulary(file: Path, reading: Reading) -> LabelSet:
    """Labels of an Annif vocabulary: one '<uri> TAB name' per line."""

    def records() -> Iterator[tuple[int, dict[str, str]]]:
        for number, line in lines(file, reading.problem):
            uri, _, name = line.partition("\t")
            if uri.strip():
                yield number, {"id": _ids(uri)[0], "text": name.partition("\t")[0]}

    return label_set(file, records(), reading)


def _ids(cell: str) -> list[str]:
    return [from_uri(uri.removeprefix("<").removesuffix(">")) for uri in cell.split()]


def _csv_rows(file: Path, reading: Reading) -> Iterator[Row]:
    for line, cells in cell_records(file, reading, _no_text):
        yield Row(line, cells["text"], _ids(cells[SUBJECTS]))


def _no_text(header: list[str]) -> str:
    if {"text", SUBJECTS} <= {*header}:
        return ""
    return f"the header needs the columns 'text' and '{SUBJECTS}' (found: {listed(header)}). Rename the columns."


def write(writing: Writing) -> None:
    """train.tsv, test.tsv and labels.ttl; ids that are not URIs get a prefix, which reading removes again."""
    uris = [f"<{to_uri(id_)}>" for id_ in writing.labels.ids]
    for split, data in writing.splits.items():
        with writer(writing.file(f"{split}.tsv")) as out:
            for i, text in enumerate(data.texts):
                line = _no_tab(writing, writing.one_line(text, i), i)
                subjects = [uris[column] for column in data.Y.indices[data.Y.indptr[i] : data.Y.indptr[i + 1]]]
                out.write(f"{line}\t{' '.join(subjects)}\n")
    with writer(writing.file("labels.ttl")) as out:
        out.writelines(turtle(writing.labels))


def _no_tab(writing: Writing, line: str, row: int) -> str:
    if "\t" in line and not writing.lossy:
        raise DataError(
            f"row {row}: the text has a TAB, which ends it in this format. Allow a blank instead with lossy=True "
            "(--lossy), or write jsonl."
        )
    return line.replace("\t", " ")


HOLDS = frozenset({"texts", "label ids", "label names", "label texts", "thesaurus", "status", "unused"})
FORMAT = Format("annif", HOLDS, write, sniff=sniff, rows=rows)
