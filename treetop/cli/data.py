"""`treetop data`: what is in a data set, what is wrong with it, other formats, a validation split."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from treetop.cli.reading import DataOptions, reads_data
from treetop.cli.streams import confirm, echo, json_line
from treetop.core.errors import ConfigError

if TYPE_CHECKING:
    from rich.table import Table

app = typer.Typer(help="Count, check, convert and split data sets.", no_args_is_help=True)

Data = Annotated[str, typer.Argument(metavar="PATH", help="Folder, file or bundled name.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Fast = Annotated[
    bool,
    typer.Option("--fast", help="On the CPU: int8 encoder in ONNX Runtime, int8 label search; scores differ slightly."),
]
Device = Annotated[
    str, typer.Option(help="Device of encoders and label vectors: cpu, cuda, cuda:1; auto: a GPU if there is one.")
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="Ray cluster to share the work: auto, HOST:PORT, ray://HOST:PORT or local:CORES. Never changes results.",
    ),
]
To = Annotated[str, typer.Option("--to", help="Format to write; see docs/formats.md.")]
Lossy = Annotated[bool, typer.Option("--lossy", help="Leave out what the format cannot hold.")]
Gzip = Annotated[bool, typer.Option("--gzip", help="Compress text files (gzip).")]


@app.command()
@reads_data
def stats(
    path: Data,
    as_json: AsJson = False,
    *,
    reading: DataOptions,
) -> None:
    """Count rows, labels and words; show the tail, odd rows and overlaps between splits."""
    from treetop.data.stats import describe

    facts = describe(reading.source(path).read_all())
    if as_json:
        echo(json_line(facts))
        return
    from rich.console import Console

    console = Console()
    console.print(_splits_table(facts))
    console.print(_tail_table(facts))
    texts, per_label = facts["label_texts"], facts["texts_per_label"]
    console.print(
        f"{facts['labels']:,} labels, {_alike(facts['labels_alike'])}{texts['with_text']:,} with a text; "
        f"{texts['sharing_a_text']:,} share it with another label, {texts['equal_to_a_document']:,} equal a document. "
        f"Texts per label: {per_label['mean']} on average, median {per_label['median']:g}. "
        f"Propensity constants A, B: {facts['propensity'][0]}, {facts['propensity'][1]}."
        + (f" Language: {facts['language']}." if facts["language"] else ""),
        highlight=False,
        soft_wrap=True,
    )


def _alike(count: int) -> str:
    return f"{count:,} of them like another but for case or spaces (--join-labels), " if count else ""


def _splits_table(facts: dict[str, Any]) -> Table:
    from rich.table import Table
    from rich.text import Text

    from treetop.core.errors import shortened, visible

    table = Table(title=Text(visible(shortened(facts["name"]))), title_justify="left")
    table.add_column("")
    for name in facts["splits"]:
        table.add_column(name, justify="right")
    for key in dict.fromkeys(key for split in facts["splits"].values() for key in split):
        cells = [_cell(split.get(key)) for split in facts["splits"].values()]
        if any(cell not in ("", "0", "no") for cell in cells) or key in ("rows", "empty_texts", "rows_without_labels"):
            table.add_row(key.replace("_", " "), *cells)
    return table


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        if "mean" in value:
            return f"{value['mean']:,} (max {value['max']:,})"
        return ", ".join(f"{key} {item:{'.1%' if isinstance(item, float) else ','}}" for key, item in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else f"{value:,}"


def _tail_table(facts: dict[str, Any]) -> Table:
    from rich.table import Table

    table = Table(title="labels by number of training texts", title_justify="left")
    for name in facts["tail"]:
        table.add_column(name, justify="right")
    table.add_row(*(f"{count:,}" for count in facts["tail"].values()))
    return table


@app.command()
@reads_data
def validate(
    path: Data,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of problems to list.")] = 100,
    as_json: AsJson = False,
    *,
    reading: DataOptions,
) -> None:
    """List every bad row with file, line, reason and remedy; exit code 2 if there is one."""
    from treetop.data.validate import to_dict
    from treetop.data.validate import validate as check

    if reading.skip_bad:
        raise ConfigError("--skip-bad: validate lists all bad rows as it is. Leave it out.")
    report = check(path, limit=limit, **reading.values())
    if as_json:
        echo(json_line(to_dict(report)))
    else:
        for sentence in report.problems:
            echo(sentence)
        for sentence in report.doubts:
            echo(sentence)
        for sentence in report.notes:
            echo(f"note: {sentence}")
        rows = ", ".join(f"{count:,} {name}" for name, count in report.rows.items())
        shown = f", {len(report.problems):,} listed (--limit)" if len(report.problems) < report.count else ""
        count = report.count + len(report.doubts)
        verdict = "good" if report.good else f"{count:,} problem{'s' if count > 1 else ''}{shown}"
        echo(f"{report.path}: {report.format or 'unknown format'}, {rows or 'no'} rows: {verdict}.")
    if not report.good:
        raise typer.Exit(2)


@app.command()
@reads_data
def convert(
    path: Data,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="New folder.")],
    to: To = "jsonl",
    splits: Annotated[str, typer.Option(help="Splits, separated by commas. Default: all.")] = "",
    lossy: Lossy = False,
    gzip: Gzip = False,
    *,
    reading: DataOptions,
) -> None:
    """Write a data set in another format; refuses to drop anything unless --lossy."""
    from treetop.core.errors import InputError, choose
    from treetop.data.detect import written_formats
    from treetop.data.format import SPLITS
    from treetop.data.write import write

    choose("--to", to, written_formats(), InputError)  # before the long read
    data = reading.source(path, out).read_all()
    wanted = [SPLITS.get(name.strip(), name.strip()) for name in splits.split(",") if name.strip()] or list(data)
    for name in wanted:
        choose("--splits", name, data, InputError)
    write({name: data[name] for name in wanted}, out, to, lossy=lossy, gzip=gzip)
    confirm(f"{out}: {to}, " + ", ".join(f"{len(data[name]):,} {name}" for name in wanted) + " rows.")


@app.command()
@reads_data
def split(
    path: Data,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="New folder.")],
    fraction: Annotated[float, typer.Option(help="Fraction of train that becomes valid.")] = 0.1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split.")] = 0,
    to: To = "jsonl",
    lossy: Lossy = False,
    gzip: Gzip = False,
    *,
    reading: DataOptions,
) -> None:
    """Split train into train and valid by a hash of the text, so that equal texts stay together."""
    from treetop.core.errors import InputError, choose
    from treetop.data.detect import written_formats
    from treetop.data.split import holdout
    from treetop.data.write import write

    choose("--to", to, written_formats(), InputError)  # before the long read
    data = reading.source(path, out).read_all()
    if "train" not in data:
        raise InputError(f"{path}: no train split to divide (found: {', '.join(data)}).")
    if "valid" in data:
        raise InputError(f"{path}: has a valid split already. Use it, or remove it first.")
    train, valid = holdout(data["train"], fraction, seed)
    parts = {"train": data["train"].take(train), "valid": data["train"].take(valid)}
    write(parts | {name: part for name, part in data.items() if name != "train"}, out, to, lossy=lossy, gzip=gzip)
    confirm(f"{out}: {len(train):,} train and {len(valid):,} valid rows.")
