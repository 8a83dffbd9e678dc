"""What a format is: how it is recognised, how its rows are read, what it can hold, how it is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from treetop.core.dataset import Dataset, LabelSet
from treetop.core.errors import InputError
from treetop.data.parse.rows import Reading, Row

# Everything a Dataset may carry; a format's `holds` is a subset, and a writer refuses to drop the rest.
CONTENT = {
    "texts": "texts",
    "features": "precomputed features",
    "views": "features under other names than 'given'",
    "ids": "document ids",
    "soft": "soft targets",
    "relevance": "relevance weights",
    "roles": "row roles",
    "filter": "filter pairs",
    "label ids": "label ids",
    "label names": "label names",
    "label texts": "label texts",
    "thesaurus": "alternative names and relations of labels",
    "status": "retired labels",
    "unused": "unused labels",
    "propensity": "propensity constants",
    "language": "the language of the texts",
}

SPLITS = {
    "train": "train",
    "trn": "train",
    "test": "test",
    "tst": "test",
    "valid": "valid",
    "validation": "valid",
    "val": "valid",
    "dev": "valid",
}


@dataclass(frozen=True)
class Split:
    """One split of the data: its file (for messages), its rows and its filter pairs."""

    file: object
    rows: Callable[[Reading], Iterator[Row]]
    filter: Callable[[Reading], Iterator[tuple[int, int, Any]]] | None = None  # (line, row, label)
    filter_file: object = None


def no_labels(reading: Reading) -> LabelSet | None:
    """For sources without a labels file."""
    return None


@dataclass(frozen=True)
class Source:
    """Data found at a path, not read yet."""

    format: str
    name: str
    splits: Mapping[str, Split]
    labels: Callable[[Reading], LabelSet | None] = no_labels
    numbered: bool = False  # rows name labels by column number
    widths: Callable[[Reading], Mapping[str, int]] = lambda reading: {}
    propensity: tuple[float, float] | None = None  # where the data itself says
    language: str = ""  # of the texts, where the data itself says
    weights: bool = False  # `relevance` holds soft targets when none is above 1 (LF files)


@dataclass(frozen=True)
class Head:
    """What detection examines: the file and its first bytes after unpacking."""

    file: Path
    start: bytes

    @property
    def suffix(self) -> str:
        """The extension without .gz, lower case."""
        name = self.file.name.lower().removesuffix(".gz")
        return Path(name).suffix

    @cached_property
    def lines(self) -> list[str]:
        """Lines that are not blank; the last may be cut off."""
        return [line.rstrip("\r") for line in self.start.decode(errors="replace").split("\n") if line.strip()]

    @property
    def line(self) -> str:
        """The first line that is not blank."""
        return self.lines[0] if self.lines else ""


@dataclass(frozen=True)
class Writing:
    """What to write and where: splits of one label space into a fresh folder."""

    folder: Path
    splits: Mapping[str, Dataset]
    gzip: bool = False
    lossy: bool = False

    @property
    def labels(self) -> LabelSet:
        return next(iter(self.splits.values())).labels

    def one_line(self, text: str, row: int) -> str:
        """A text for a format with one text per line; line breaks become blanks only where losses are allowed."""
        if "\n" not in text and "\r" not in text:
            return text
        if not self.lossy:
            raise InputError(
                f"row {row}: the text has a line break, which this format cannot hold. Allow it to become a blank with "
                "lossy=True (--lossy), or write jsonl."
            )
        return re.sub(r"\r\n?|\n", " ", text)

    def word(self, label: str, forbidden: str, prefix: str = "") -> str:
        """A label id for a format that ends labels at `forbidden`, which becomes '_' only where losses are allowed."""
        bad = sorted({letter for letter in label if letter in forbidden or (letter.isspace() and " " in forbidden)})
        if not bad and label:
            return prefix + label
        if not self.lossy:
            raise InputError(
                f"label '{label}': this format cannot hold {bad[0] if bad else ''!r} in a label id. Allow '_' instead "
                "with lossy=True (--lossy), or write jsonl."
            )
        return prefix + ("".join("_" if letter in bad else letter for letter in label) or "_")

    def file(self, name: str) -> Path:
        """A text file in the folder, with the suffix .gz if compression was requested."""
        return self.folder / (name + ".gz" if self.gzip else name)


@dataclass(frozen=True)
class Format:
    """One way to store data. `find` recognises folder layouts by file names, `sniff` single files by first bytes."""

    name: str
    holds: frozenset[str]
    write: Callable[[Writing], None] | None = None  # None: the format is only read
    find: Callable[[Path], Source | None] | None = None
    sniff: Callable[[Head], bool] | None = None
    rows: Callable[[Path, Reading], Iterator[Row]] | None = None
    file_labels: Callable[[Path, Reading], LabelSet] | None = None  # of numbered files: from the header
    file_widths: Callable[[Path, Reading], Mapping[str, int]] | None = None


def stem(file: Path) -> str:
    """The file's name without extensions, lower case: Train.jsonl.gz -> train."""
    return file.name.lower().split(".")[0]
