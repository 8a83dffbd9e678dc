"""`treetop bench`: several recipes on one data set, trained and tested on this machine."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from treetop.cli.reading import DataOptions, reads_data
from treetop.cli.streams import echo, json_line
from treetop.core.errors import ConfigError, TreetopError
from treetop.core.log import logger

if TYPE_CHECKING:
    from treetop.bench.cells import Asked

FAST = ("popular", "neighbours", "xr_linear", "extremetext", "parabel")
RECIPES = f"Each may carry its preset, as in lightxml:cpu; all: every recipe. Default: {', '.join(FAST)}."
BUDGET = "Limits of every training, as in `fit`: memory=8GB,time=10min,model=50MB. A recipe that is refused is listed."


@reads_data
def bench(
    data: Annotated[str, typer.Argument(metavar="DATA", help="Folder with train and test, or a bundled name.")],
    recipes: Annotated[list[str] | None, typer.Argument(metavar="[RECIPE...]", help=RECIPES)] = None,
    preset: Annotated[str, typer.Option(help="Preset of the recipes that name none.")] = "default",
    set_: Annotated[list[str] | None, typer.Option("--set", help="A setting for every recipe; repeatable.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the training.")] = 0,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads; default: all cores. Never changes results.")
    ] = None,
    device: Annotated[str, typer.Option(help="Device of the encoder: auto, cpu, cuda or cuda:1.")] = "auto",
    budget: Annotated[str, typer.Option(help=BUDGET)] = "",
    record: Annotated[Path | None, typer.Option(help="Append a JSON line for each recipe to this file.")] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Do not repeat what --record has already; recipes that failed are repeated."),
    ] = False,
    table: Annotated[
        Path | None, typer.Option(help="Also write all scores with intervals, and all costs, to this Markdown file.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the records as JSON lines instead of a table.")
    ] = False,
    *,
    reading: DataOptions,
) -> None:
    """Train each recipe on the train split, evaluate it on the test split, and print scores and costs."""
    from treetop.bench.cells import Asked, named
    from treetop.core.forecast import parse_budget
    from treetop.training import check_run, plan

    cells = named(recipes or FAST, preset)
    for name, its in cells:  # report mistakes before data is read
        plan(name, preset=its, settings=set_ or [])
    check_run(seed, device)
    parse_budget(budget)
    if record is not None and record.is_dir():
        raise ConfigError(f"--record {record}: is a folder. Name a file to append lines to.")
    if resume and record is None:
        raise ConfigError("--resume: needs the file of records. Add --record FILE.")
    if table is not None and table.is_dir():
        raise ConfigError(f"--table {table}: is a folder. Name a Markdown file to write.")
    asked = Asked(set_ or [], seed, threads, device, budget)
    if len(cells) == 1 and not resume:
        records, code = [_one(*cells[0], asked, data, reading, record, as_json)], 0
    else:
        records, code = _each(cells, asked, data, reading, record, resume)
    _show(records, table, as_json)
    if code:
        raise typer.Exit(min(code, 2))


def _one(
    name: str, preset: str, asked: Asked, data: str, reading: DataOptions, record: Path | None, as_json: bool
) -> dict[str, Any]:
    """One recipe in this process."""
    from treetop.bench.cells import failed
    from treetop.bench.measure import measure
    from treetop.core.provenance import append

    source = reading.source(data, record)
    try:
        values = measure(
            name, source.read(), source.read("test"), preset=preset, settings=asked.settings, seed=asked.seed,
            threads=asked.threads, device=asked.device, budget=asked.budget,
        )  # fmt: skip
    except TreetopError as error:
        if as_json:  # a table of several recipes says why this one is missing
            echo(json_line(failed(asked.cell(name, preset), str(error))))
        raise
    if record is not None:
        append(record, values)
    return values


def _each(
    cells: list[tuple[str, str]], asked: Asked, data: str, reading: DataOptions, record: Path | None, resume: bool
) -> tuple[list[dict[str, Any]], int]:
    """Each recipe in a process of its own, to measure its peak memory; a failure does not stop the others."""
    from treetop.bench.cells import matching, on_record, run
    from treetop.core.provenance import append

    source = reading.source(data)
    source.read("test")  # a data set that is not there is reported once
    old = on_record(record) if resume else []
    fingerprint = source.read().fingerprint if old else ""
    known = {each: matching(old, asked.cell(*each), fingerprint) for each in cells}
    words = [] if logger.isEnabledFor(logging.INFO) else ["--quiet"]
    found, code = dict(known), 0
    missing = [each for each, values in known.items() if values is None]
    if resume and len(missing) < len(cells):
        logger.info("%d of %d recipes are in %s already", len(cells) - len(missing), len(cells), record)
    for each, (values, ended) in zip(missing, run(missing, asked, data, [*words], reading.words()), strict=True):
        found[each], code = values, max(code, ended)
        if record is not None:
            append(record, values)
    return [values for values in found.values() if values is not None], code


def _show(records: list[dict[str, Any]], table: Path | None, as_json: bool) -> None:
    from treetop.bench.table import markdown, terminal

    if table is not None:
        table.absolute().parent.mkdir(parents=True, exist_ok=True)
        table.write_text(markdown(records), encoding="utf-8")
    if as_json:
        for values in records:
            echo(json_line(values))
    elif any("problem" not in values for values in records):
        echo(terminal(records))
