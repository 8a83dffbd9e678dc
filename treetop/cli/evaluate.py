"""`treetop evaluate`: how good a model is on labelled texts, as a table, JSON, a page and a file per label."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from treetop.cli.data import Cluster, Device, Fast
from treetop.cli.reading import DataOptions, reads_data
from treetop.cli.streams import echo, json_line, note
from treetop.core.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from treetop.core.types import Scores

KS = "1,3,5,10"


@reads_data
def evaluate(
    model: Annotated[Path, typer.Argument(help="Model folder.")],
    data: Annotated[str, typer.Argument(metavar="DATA", help="Folder, file or bundled name.")],
    split: Annotated[str, typer.Option(help="Split of the data.")] = "test",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    report: Annotated[Path | None, typer.Option(help="Write an HTML page into this folder.")] = None,
    per_label: Annotated[
        Path | None, typer.Option(help="Write the metrics of every label to this file (.csv, .tsv, .jsonl).")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing --per-label file.")] = False,
    *,
    reading: DataOptions,
    k: Annotated[str, typer.Option("-k", help="Cut-offs k of the metrics.")] = KS,
    intervals: Annotated[bool, typer.Option(help="95 % intervals from 1,000 resamples.")] = True,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the resampling.")] = 0,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads; default: all cores. Never changes results.")
    ] = None,
    cluster: Cluster = None,
    device: Device = "auto",
    fast: Fast = False,
) -> None:
    """Compare a model's rankings with the true labels: P, R, nDCG, PSP and more, in percent."""
    ks = parse_ks(k)
    from treetop.core.executor.ray import cluster as sharing
    from treetop.core.target import check_new_file
    from treetop.evaluate.match import match
    from treetop.evaluate.per_label import check_target, write_labels
    from treetop.evaluate.report.page import check_folder
    from treetop.evaluate.score import score_matches
    from treetop.kernels.runtime import threads as pool
    from treetop.model import load

    if per_label is not None:
        check_target(per_label)
        _check_apart(per_label, Path(data))
        check_new_file(per_label, overwrite=overwrite)
    if report is not None:
        check_folder(report)  # report an unwritable folder before the work
    source = reading.source(data, report or per_label)
    opened = load(model, device="cpu" if cluster else device, fast=fast)
    with pool.limited(threads), sharing(cluster):
        dataset = source.read(split, opened.labels)
        matches = match(opened, dataset, depth=max(ks), strict=reading.strict)
        scores = score_matches(matches, ks=ks, resamples=1000 if intervals else 0, seed=seed)
    if per_label is not None:
        write_labels(matches, per_label)
    if report is not None:
        from treetop.core.curve import of_model
        from treetop.core.texts import readable
        from treetop.evaluate.report.evaluation import Page, write_report
        from treetop.evaluate.report.examples import Examples
        from treetop.evaluate.report.findings import Findings

        facts = {
            "Model": readable(model.resolve().name),
            "Recipe": opened.card.title,
            "Data": f"{dataset.name} ({split})",
        }
        facts["Trained on"] = f"{opened.n_train:,} documents, {len(opened.labels):,} labels"
        examples = Examples.of({facts["Model"]: matches}, dataset, k=max(ks))
        findings = Findings.of(matches, dataset, opened.members[0])
        page = Page.of(matches, scores, facts, examples=examples, training=of_model(model), findings=findings)
        note(f"report: {write_report(report, page)}")
    if as_json:
        echo(json_line(scores.to_dict()))
        return
    from rich.console import Console

    console = Console()
    tables = [metrics_table(scores), bins_table(scores), *([thresholds_table(scores)] if scores.thresholds else [])]
    for table in tables:
        print_whole(console, table)
        console.print()
    counts = scores.counts
    console.print(
        f"{counts['documents']:,} documents, {counts['labels_tested']:,} labels tested, "
        f"{counts['labels_tested_unseen']:,} of them never seen in training. In percent"
        + (", with 95 % intervals." if intervals else "."),
        soft_wrap=True,
    )


def _check_apart(file: Path, data: Path) -> None:
    """Refuse to write into the data folder, where `labels.jsonl` would be read as its labels."""
    for place in (file, file.parent):
        if data.exists() and place.exists() and place.samefile(data):
            raise ConfigError(
                f"--per-label {file}: is inside the folder of the data to evaluate on. Choose another folder."
            )


def print_whole(console: Console, table: Table) -> None:
    """Print a table in full; in a narrow window lines wrap, but no cell is truncated."""
    console.width = max(console.width, whole_width(console, table))
    console.print(table)


def whole_width(console: Console, table: Table) -> int:
    """Width of a table without line wraps."""
    from rich.measure import Measurement

    return Measurement.get(console, console.options.update(max_width=10_000), table).maximum


def parse_ks(text: str) -> tuple[int, ...]:
    """Cut-offs from a list such as 1,3,5."""
    parts = [part for part in re.split(r"[,\s]+", text) if part]
    if not parts or not all(part.isdecimal() and 1 <= int(part) <= 1000 for part in parts):
        raise ConfigError(f"-k: '{text}' is not a list of numbers from 1 to 1000. Write for example -k {KS}.")
    return tuple(sorted({int(part) for part in parts}))


def metrics_table(scores: Scores) -> Table:
    """Metrics as rows, cuts as columns."""
    from rich.table import Table

    grid: dict[str, dict[str, str]] = {}
    for name, value in scores.values.items():
        metric, _, cut = name.partition("@")
        low, high = scores.intervals.get(name, (None, None))
        bounds = "" if low is None else f" [dim]{low:.1f}–{high:.1f}[/dim]"
        grid.setdefault(metric, {})[cut] = f"{value:.2f}{bounds}"
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for cut in next(iter(grid.values())):
        table.add_column(f"@{cut}", no_wrap=True)
    for metric, cells in grid.items():
        table.add_row(f"[bold]{metric}[/bold]", *cells.values())
    return table


def bins_table(scores: Scores) -> Table:
    """Frequency bins as rows."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("labels by training count")
    for title in ("count", "labels", "share of P@5", "R@10"):
        table.add_column(title, justify="right", no_wrap=True)
    for row in scores.bins:
        counts = "–".join(f"{count:,}" for count in sorted(set(row["train_counts"])))
        table.add_row(row["name"], counts, f"{row['labels']:,}", f"{row['P@5_share']:.2f}", f"{row['R@10']:.2f}")
    return table


def thresholds_table(scores: Scores) -> Table:
    """F1 of the labels of a calibrated model at or above a probability."""
    from rich.table import Table

    names = {"half": "0.5", "best F1": "best F1 on held-out"}
    titles = ("microF1", "macroF1", "precision", "recall")
    table = Table(box=None, pad_edge=False)
    table.add_column("labels by probability")
    for title in ("at least", *titles, "labels per text"):
        table.add_column(title, justify="right", no_wrap=True)
    for row in scores.thresholds:
        figures = (f"{row[key]:.2f}" for key in (*titles, "labels_per_document"))
        table.add_row(names.get(row["name"], row["name"]), f"{row['threshold']:.2f}", *figures)
    return table
