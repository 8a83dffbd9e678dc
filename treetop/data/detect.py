"""Which format is at a path? Layouts are recognised by file names, single files by their first bytes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from treetop.core import registry
from treetop.core.dataset import LabelSet
from treetop.core.errors import DataError, InputError, did_you_mean
from treetop.data import catalog, sidecar
from treetop.data.format import SPLITS, Format, Head, Source, Split, no_labels, stem
from treetop.data.label_files import labels_reader
from treetop.data.parse.documents import KINDS, kind
from treetop.data.parse.lines import UTF16, head, lines, other_than_text
from treetop.data.parse.rows import Reading, Row

ENDINGS = {
    "", ".txt", ".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", ".xlsx", ".xlsm",
    ".svm", ".libsvm", ".svmlight", ".ttl", ".nt", ".rdf", ".xml",
}  # fmt: skip


def formats() -> dict[str, Format]:
    """All formats in the order in which they are asked: plug-ins, whose rules are narrow, then the built-in ones."""
    names, built_in = registry.names("format"), registry.TABLE["format"]
    order = [*(name for name in names if name not in built_in), *built_in]
    return {name: registry.find("format", name) for name in order}


def written_formats() -> dict[str, Format]:
    """The formats that can be written."""
    return {name: format for name, format in formats().items() if format.write is not None}


def find(path: str | Path) -> Source:
    """The data at a path or behind a bundled name."""
    if not str(path):
        raise InputError("data: an empty path. Give a folder, a file or a bundled name.")
    place = Path(path)
    if place.is_dir():
        return find_folder(place)
    if place.exists():
        return find_file(place)
    if str(path) in catalog.bundled():
        return find_folder(catalog.bundled_folder(str(path)))
    names = sorted(catalog.bundled())
    raise InputError(
        f"{path}: no such file or folder, and no bundled data set of this name ({', '.join(names)})."
        f"{did_you_mean(str(path), names)} Give a folder, a file or one of these names."
    )


def find_file(file: Path) -> Source:
    """One file serves as every split."""
    format = file_format(file)
    rows = _rows(format, file)
    split = Split(file, rows)
    return Source(
        format.name,
        stem(file),
        dict.fromkeys(("train", "test", "valid"), split),
        labels=no_labels if format.file_labels is None else _late(format.file_labels, file),
        numbered=format.file_labels is not None,
        widths=(lambda reading: {}) if format.file_widths is None else _late(format.file_widths, file),
    )


def _rows(format: Format, file: Path) -> Callable[[Reading], Iterator[Row]]:
    reader = format.rows
    if reader is None:
        raise DataError(f"this is one file of a {format.name} folder. Give the folder instead.", file=file)
    return _late(reader, file)


def _late(function: Callable[[Path, Reading], Any], file: Path) -> Callable[[Reading], Any]:
    return lambda reading: function(file, reading)


def file_format(file: Path) -> Format:
    """The format of a single file, by its first bytes; the extension only decides ambiguous cases."""
    start = Head(file, head(file))
    if start.start[:2] in UTF16:
        next(lines(file), None)  # says so
    for format in formats().values():
        if format.sniff is not None and format.sniff(start):
            return format
    if not start.start.strip():
        raise DataError(
            "the file is empty or cannot be unpacked. Give one with at least one row (docs/formats.md).", file=file
        )
    if sentence := other_than_text(start.start, file):
        raise DataError(sentence, file=file)
    shown = start.line[:60]
    if shown.lstrip().startswith("["):
        raise DataError(
            "this is a JSON list; expected one object per line. Convert it, for example with: jq -c '.[]'", file=file
        )
    raise DataError(
        f"unknown format; it starts with {shown!r}. Known are {', '.join(formats())}: see docs/formats.md.",
        file=file,
    )


def find_folder(folder: Path) -> Source:
    """A known layout, or a plain folder with train, test, labels and filter files."""
    for format in formats().values():
        if format.find is not None and (source := format.find(folder)) is not None:
            return dataclasses.replace(source, language=sidecar.read_facts(folder).get("language", ""))
    return _plain_folder(folder)


def _plain_folder(folder: Path) -> Source:
    files = _named_files(folder)
    parts = {name: file for name, file in files.items() if name not in ("labels", "filter")}
    formats = {name: file_format(file) for name, file in parts.items()}
    main = "train" if "train" in formats else next(iter(formats))
    format, file = formats[main], files[main]
    for name, other in formats.items():
        if (other.file_labels is None) != (format.file_labels is None):
            sentence = f"{file.name} is {format.name}, {files[name].name} {other.name}; one of them numbers its labels"
            raise DataError(f"{sentence}, the other does not. Convert one first.", file=folder)
    facts = sidecar.read_facts(folder)
    widths: Mapping[str, int] = facts.get("features", {})
    labels: Callable[[Reading], LabelSet | None] | None = labels_reader(files["labels"]) if "labels" in files else None
    if format.file_labels is not None:
        labels = _counted_labels(labels, _late(format.file_labels, file), files.get("labels"))
    pair = facts.get("propensity")
    return Source(
        format.name,
        folder.name,
        {name: _folder_split(name, files, formats[name]) for name in parts},
        labels=labels or no_labels,
        numbered=format.file_labels is not None,
        widths=_late(format.file_widths, file) if format.file_widths is not None else lambda reading: widths,
        propensity=None if pair is None else (float(pair[0]), float(pair[1])),
        language=facts.get("language", ""),
    )


def _named_files(folder: Path) -> dict[str, Path]:
    """Files of a plain folder by what they are: train, test, valid, labels, filter."""
    files: dict[str, Path] = {}
    for file in sorted(folder.iterdir()):
        name = SPLITS.get(stem(file), stem(file))
        if name not in ("train", "test", "valid", "labels", "filter") or Head(file, b"").suffix not in ENDINGS:
            continue
        if not file.is_file():
            continue
        if name in files:
            raise DataError(f"{files[name].name} and {file.name} both look like '{name}'. Keep one.", file=folder)
        files[name] = file
    if not files.keys() & {"train", "test", "valid"}:
        if (folder / "manifest.json").is_file() and (folder / "part.json").is_file():
            raise DataError(
                "this is a treetop model, but data are expected. Give a folder or file of rows; `treetop compare` "
                "takes it before the models, `treetop evaluate` after the model.",
                file=folder,
            )
        there = sorted(file.name for file in folder.iterdir())
        if there and all(kind(name) in KINDS for name in there):
            base = there[0].partition(".")[0]
            raise DataError(
                f"documents such as {there[0]}, but no labels. Write those of each document into a file beside it: "
                f"{base}.key (a name in a line) or {base}.tsv (<URI> TAB name).",
                file=folder,
            )
        names = ", ".join(there[:8]) or "nothing"
        layouts = ", ".join(name for name, format in formats().items() if format.find)
        raise DataError(
            f"no train file found (found: {names}). Name the rows train.jsonl, train.csv or train.parquet, or use one "
            f"of the layouts {layouts} of docs/formats.md.",
            file=folder,
        )
    return files


def _folder_split(name: str, files: Mapping[str, Path], format: Format) -> Split:
    pairs = sidecar.filter_reader(files["filter"], name) if "filter" in files else None
    return Split(files[name], _rows(format, files[name]), pairs, files.get("filter"))


def _counted_labels(
    named: Callable[[Reading], LabelSet | None] | None, counted: Callable[[Reading], LabelSet], file: Path | None
) -> Callable[[Reading], LabelSet | None]:
    """Labels of rows that number them: from the labels file, which must have as many as the header says."""

    def labels(reading: Reading) -> LabelSet | None:
        promised, counted_labels = counted(reading), None if named is None else named(reading)
        if counted_labels is not None and len(counted_labels) != len(promised):
            raise DataError(f"{len(counted_labels):,} labels, but the header promises {len(promised):,}.", file=file)
        return promised if counted_labels is None else counted_labels

    return labels
