"""Options of every command that reads labelled data: columns, how labels are written, what to do with bad rows."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from treetop.cli.streams import note
from treetop.core.errors import ConfigError

if TYPE_CHECKING:
    from treetop.core.dataset import Dataset, LabelSet
    from treetop.data.parse.skipped import Skipped

ENDING = ".skipped.jsonl"
SKIP = "Leave out bad rows and unreadable documents instead of stopping at the first; they are listed in a file."
SKIPPED = f"With --skip-bad: the file that lists what was left out. Default: INPUT{ENDING} beside --out, else here."
LANGUAGE = "Language of the texts, such as fi, for stems. Default: `language` in dataset.json."
LABEL_LANGUAGE = "Language of SKOS names; several: en,fi (the first names labels). Default: that of the texts, else en."

TextColumn = Annotated[
    list[str] | None,
    typer.Option("--text-column", help="Column or field with the text; several are joined by a blank."),
]
Sheet = Annotated[str | None, typer.Option("--sheet", help="Sheet of a spreadsheet (.xlsx). Default: the first.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help=SKIP)]
SkippedFile = Annotated[Path | None, typer.Option("--skipped", metavar="FILE", help=SKIPPED)]


@dataclass
class BadRows:
    """Bad rows that a command leaves out, and the file that lists them."""

    skip_bad: bool
    skipped: Path | None
    source: str
    out: Path | None = None
    found: Skipped | None = field(default=None, init=False)
    _told: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if not self.skip_bad:
            if self.skipped is not None:
                raise ConfigError("--skipped: lists what --skip-bad leaves out. Add --skip-bad.")
            return
        from treetop.core.target import check_new_file
        from treetop.data.parse.skipped import Skipped

        check_new_file(self.file, overwrite=self.file.name.endswith(ENDING))
        self.found = Skipped()

    @property
    def file(self) -> Path:
        """The file that lists them."""
        name = "stdin" if self.source == "-" else Path(self.source).resolve().name
        return self.skipped or (self.out.absolute().parent if self.out else Path()) / (name + ENDING)

    def report(self) -> None:
        """Write the file and say where it is, if there are bad rows that were not reported yet."""
        if self.found is not None and len(self.found) > self._told:
            self._told = len(self.found)
            self.file.absolute().parent.mkdir(parents=True, exist_ok=True)
            self.found.save(self.file)
            rows = "bad row or document was" if self._told == 1 else "bad rows or documents were"
            note(f"{self._told:,} {rows} left out, with reasons in {self.file}")


@dataclass
class DataOptions:
    """How a command reads its data."""

    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse unknown labels, repeated labels and rows without labels.")
    ] = False
    one_based: Annotated[
        bool, typer.Option("--one-based", help="Label and feature ids of sparse files start at 1.")
    ] = False
    separator: Annotated[str, typer.Option(help="Separator of labels within one cell of a table.")] = "|"
    text_column: TextColumn = None
    label_column: Annotated[str, typer.Option("--label-column", help="Column or field with the labels.")] = "labels"
    sheet: Sheet = None
    join_labels: Annotated[
        bool, typer.Option("--join-labels", help="Labels that differ only in case or spaces are one label.")
    ] = False
    language: Annotated[str, typer.Option("--language", help=LANGUAGE)] = ""
    label_language: Annotated[str, typer.Option("--label-language", help=LABEL_LANGUAGE)] = ""
    skip_bad: SkipBad = False
    skipped: SkippedFile = None

    def __post_init__(self) -> None:
        from treetop.core.language import stemmed_language

        stemmed_language(self.language)

    def values(self) -> dict[str, Any]:
        """Options of `Dataset.read`, without those about bad rows."""
        return {
            "strict": self.strict,
            "one_based": self.one_based,
            "separator": self.separator,
            "fields": self.text_column,
            "label_field": self.label_column,
            "sheet": self.sheet,
            "join_labels": self.join_labels,
            "language": self.label_language,
            "text_language": self.language,
        }

    def words(self) -> list[str]:
        """The options that are not the default, as a command has them."""
        words: list[str] = []
        for item in fields(self):
            value, option = vars(self)[item.name], f"--{item.name.replace('_', '-')}"
            if isinstance(value, bool):
                words += [option] if value else []
            elif value != item.default:
                words += [
                    word for each in (value if isinstance(value, list) else [value]) for word in (option, str(each))
                ]
        return words

    def source(self, data: str, out: Path | None = None) -> Source:
        """The data of a command; `out` is what it writes."""
        return Source(data, self, BadRows(self.skip_bad, self.skipped, data, out))


@dataclass
class Source:
    """The data of a command, of which it reads one split after the other."""

    data: str
    options: DataOptions
    bad: BadRows

    def read(self, split: str = "train", known: LabelSet | None = None) -> Dataset:
        """One split; bad rows are reported at once. Labels may be joined to those of a model that are `known`."""
        from treetop.core.dataset import Dataset

        spellings = list(known.ids) if known is not None and self.options.join_labels else ()
        dataset = Dataset.read(self.data, split, **self.options.values(), skip=self.bad.found, spellings=spellings)
        self.bad.report()
        return dataset

    def read_all(self) -> dict[str, Dataset]:
        """Every split."""
        from treetop.data.read import read_all

        splits = read_all(self.data, **self.options.values(), skip=self.bad.found)
        self.bad.report()
        return splits


def reads_data(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `DataOptions`, which it gets as its parameter `reading`."""
    hints = get_type_hints(DataOptions, include_extras=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    options = [
        inspect.Parameter(f.name, kind, default=f.default, annotation=hints[f.name]) for f in fields(DataOptions)
    ]
    signature = inspect.signature(command, eval_str=True)
    others = [item.replace(kind=kind) for item in signature.parameters.values()]
    place = [item.name for item in others].index("reading")

    @functools.wraps(command)
    def run(**given: Any) -> None:
        chosen = DataOptions(**{option.name: given.pop(option.name) for option in options})
        command(**given, reading=chosen)

    run.__dict__["__signature__"] = signature.replace(parameters=[*others[:place], *options, *others[place + 1 :]])
    return run
