"""Annif's full-text folders: `name.txt` (or .html, .pdf) beside `name.tsv` (URI TAB label) or `name.key` (labels)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from treetop.core.dataset import LabelSet
from treetop.core.errors import DataError
from treetop.core.log import logger
from treetop.data.format import SPLITS, Format, Source, Split, stem
from treetop.data.formats.skos import from_uri
from treetop.data.label_files import labels_reader
from treetop.data.parse.documents import KINDS, kind, read_document
from treetop.data.parse.lines import lines
from treetop.data.parse.rows import Reading, Row

SUBJECTS = (".tsv", ".key")
LABELS = (".ttl", ".nt", ".rdf", ".xml", ".csv", ".tsv", ".jsonl", ".txt")


class Document(NamedTuple):
    """A file with a text and the file with its subjects."""

    name: str
    text: Path
    subjects: Path


def find(folder: Path) -> Source | None:
    """A folder of documents with their subjects, or one with such folders named train, test and valid."""
    names = sorted(file.name for file in folder.iterdir() if not file.name.startswith("."))
    if any(stem(Path(name)) in SPLITS and (folder / name).is_file() for name in names):
        return None
    found, without = _documents(folder, names)
    if found:
        splits = dict.fromkeys(("train", "test", "valid"), _split(folder, found, without))
        return Source("fulltext", folder.name, splits, _labels(folder, found))
    parts: dict[str, tuple[Path, list[Document], list[str]]] = {}
    for name in names:
        if name.lower() in SPLITS and (folder / name).is_dir():
            inner = sorted(file.name for file in (folder / name).iterdir() if not file.name.startswith("."))
            found, without = _documents(folder / name, inner)
            if found:
                parts[SPLITS[name.lower()]] = (folder / name, found, without)
    if not parts:
        return None
    labels = _labels(folder, parts["train" if "train" in parts else next(iter(parts))][1])
    return Source("fulltext", folder.name, {name: _split(*part) for name, part in parts.items()}, labels)


def _documents(folder: Path, names: list[str]) -> tuple[list[Document], list[str]]:
    """(documents with subjects, files of those without); of several files of one document the first kind counts."""
    there, found, without = {*names}, dict[str, Document](), list[str]()
    for name in sorted(names, key=lambda name: (KINDS.index(kind(name)) if kind(name) in KINDS else 0, name)):
        if kind(name) not in KINDS:
            continue
        base = name[: len(name.lower().removesuffix(".gz")) - len(kind(name))]
        subjects = next((base + ending for ending in SUBJECTS if base + ending in there), None)
        if subjects is None:
            without.append(name)
        elif base not in found:
            found[base] = Document(base, folder / name, folder / subjects)
    return [found[base] for base in sorted(found)], without


def _split(folder: Path, found: list[Document], without: list[str]) -> Split:
    def rows(reading: Reading) -> Iterator[Row]:
        if without:
            logger.warning(
                "%s: documents without a .tsv or .key file beside them are left out: %d, such as %s.",
                folder, len(without), without[0],
            )  # fmt: skip
        for number, document in enumerate(found, 1):
            try:
                text = read_document(document.text)
                labels = [id_ for id_, _ in _subjects(document.subjects)]
            except DataError as error:
                reading.problem(DataError(error.reason, file=error.file, line=error.line))
                continue
            yield Row(number, text, labels, id=document.name, file=document.text)

    return Split(folder, rows)


def _subjects(file: Path) -> Iterator[tuple[str, str]]:
    """(id, name) of each subject; a .key file has names only."""
    for _, line in lines(file):
        first, _, name = line.partition("\t")
        if first.strip():
            id_ = first.strip()
            yield (
                (id_, "")
                if file.suffix == ".key"
                else (from_uri(id_.removeprefix("<").removesuffix(">")), name.strip())
            )


def _labels(folder: Path, found: list[Document]) -> Callable[[Reading], LabelSet | None]:
    """Labels from a labels file in the folder, else from the names in the .tsv files."""
    file = next((folder / f"labels{ending}" for ending in LABELS if (folder / f"labels{ending}").is_file()), None)
    if file is not None:
        return labels_reader(file)

    def named(reading: Reading) -> LabelSet | None:
        names: dict[str, str] = {}
        for document in found:
            if document.subjects.suffix != ".key":
                names |= {id_: name for id_, name in _readable(document.subjects) if name and id_ not in names}
        return LabelSet.of(list(names), names=list(names.values())) if names else None

    return named


def _readable(file: Path) -> list[tuple[str, str]]:
    try:
        return list(_subjects(file))
    except DataError:
        return []  # reading the row will report it


HOLDS = frozenset({"texts", "ids", "label ids", "label names"})
FORMAT = Format("fulltext", HOLDS, find=find)
