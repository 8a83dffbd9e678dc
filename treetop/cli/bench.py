"""`treetop bench`: several recipes on one data set, trained and tested on this machine."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from treetop.cli.reading import DataOptions, reads_data
from treetop.cli.streams import echo, json_line
from treetop.core.errors import ConfigError
from treetop.core.log import logger

FAST = ("popular", "neighbours", "xr_linear", "extremetext", "parabel")
COLUMNS = (
    ("P@1", "scores.P@1", 2),
    ("P@5", "scores.P@5", 2),
    ("PSP@5", "scores.PSP@5", 2),
    ("train CPU s", "train.cpu_s", 1),
    ("wall s", "train.wall_s", 1),
    ("peak MB", "train.peak_mb", 0),
    ("model MB", "model_mb", 1),
    ("documents/s", "batch.docs_per_s", 0),
)


@reads_data
def bench(
    data: Annotated[str, typer.Argument(metavar="DATA", help="Folder with train and test, or a bundled name.")],
    recipes: Annotated[
        list[str] | None, typer.Argument(metavar="[RECIPE...]", help=f"Default: {', '.join(FAST)}.")
    ] = None,
    preset: Annotated[str, typer.Option(help="Preset to use for every recipe.")] = "default",
    set_: Annotated[list[str] | None, typer.Option("--set", help="A setting for every recipe; repeatable.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the training.")] = 0,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads; default: all cores. Never changes results.")
    ] = None,
    device: Annotated[str, typer.Option(help="Device of the encoder: auto, cpu, cuda or cuda:1.")] = "auto",
    record: Annotated[Path | None, typer.Option(help="Append a JSON line for each recipe to this file.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the records as JSON lines instead of a table.")
    ] = False,
    *,
    reading: DataOptions,
) -> None:
    """Train each recipe on the train split, evaluate it on the test split, and print scores and costs."""
    from treetop.bench import measure
    from treetop.core.provenance import append
    from treetop.training import check_run, plan

    names = recipes or list(FAST)
    for name in names:  # report mistakes before data is read
        plan(name, preset=preset, settings=set_ or [])
    check_run(seed, device)
    if record is not None and record.is_dir():
        raise ConfigError(f"--record {record}: is a folder. Name a file to append lines to.")
    if len(names) > 1:
        reading.source(data).read("test")  # so is a data set that is not there
        words = ["--preset", preset, "--seed", str(seed), "--device", device]
        words += [word for setting in set_ or [] for word in ("--set", setting)]
        words += ["--threads", str(threads)] if threads else []
        words += reading.words()
        words += ["--record", str(record)] if record else []
        _each(names, data, words, as_json)
        return
    source = reading.source(data, record)
    values = measure(
        names[0],
        source.read(),
        source.read("test"),
        preset=preset,
        settings=set_ or [],
        seed=seed,
        threads=threads,
        device=device,
    )
    if record is not None:
        append(record, values)
    echo(json_line(values) if as_json else table([values]))


def _each(names: Sequence[str], data: str, words: Sequence[str], as_json: bool) -> None:
    """Each recipe in a process of its own, to measure its peak memory; a failure does not stop the others."""
    records, code = list[dict[str, Any]](), 0
    quiet = [] if logger.isEnabledFor(logging.INFO) else ["--quiet"]
    for name in names:
        command = [sys.executable, "-m", "treetop", *quiet, "bench", "--json", *words, "--", data, name]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, encoding="utf-8", check=False)
        code = max(code, abs(done.returncode))
        if done.returncode == 0:
            records.append(json.loads(done.stdout))
            if as_json:
                echo(done.stdout.rstrip())
    if not as_json and records:
        echo(table(records))
    if code:
        raise typer.Exit(min(code, 2))


def table(records: Sequence[dict[str, Any]]) -> str:
    """Records as aligned columns."""
    rows = [["recipe", *(title for title, _, _ in COLUMNS)]]
    for values in records:
        rows.append([values["recipe"], *(f"{_figure(values, path):,.{digits}f}" for _, path, digits in COLUMNS)])
    wide = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        [row[0].ljust(wide[0]), *(cell.rjust(w) for cell, w in zip(row[1:], wide[1:], strict=True))] for row in rows
    ]
    return "\n".join("  ".join(line) for line in lines)


def _figure(values: dict[str, Any], path: str) -> float:
    part, _, key = path.partition(".")
    return float(values[part][key] if key else values[part])
