"""`treetop compare`: several models on the same texts, and whether their differences are more than chance."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from treetop.cli.data import OneBased, Separator, Strict
from treetop.cli.evaluate import KS, parse_ks, print_whole

if TYPE_CHECKING:
    from rich.console import Console

    from treetop.core.types import Scores
    from treetop.evaluate.match import Matches
    from treetop.evaluate.paired import Difference


def compare(
    data: Annotated[str, typer.Argument(metavar="DATA", help="Folder, file or bundled name.")],
    models: Annotated[list[Path], typer.Argument(metavar="MODEL...", help="Model folders; the first is the measure.")],
    split: Annotated[str, typer.Option(help="Which part of the data.")] = "test",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    report: Annotated[
        Path | None, typer.Option(help="Write an HTML page, also with ten texts, into this folder.")
    ] = None,
    strict: Strict = False,
    one_based: OneBased = False,
    separator: Separator = "|",
    k: Annotated[str, typer.Option("-k", help="Where to cut the rankings.")] = KS,
    seed: Annotated[int, typer.Option(min=0, help="Of the resampling.")] = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="Default: all cores. Never changes the result.")] = None,
) -> None:
    """Evaluate models side by side, with a paired test of each against the first."""
    ks = parse_ks(k)
    from treetop.core import store
    from treetop.core.dataset import Dataset
    from treetop.core.log import logger
    from treetop.evaluate.match import match
    from treetop.evaluate.page import check_folder
    from treetop.evaluate.paired import difference
    from treetop.evaluate.score import score_matches
    from treetop.kernels import threads as pool
    from treetop.model import load

    if report is not None:
        check_folder(report)  # a place that cannot be written is told before the work
    names = _names(models)
    for path in models:
        store.check_folder(path)  # a broken model is told before the others work
    dataset = Dataset.read(data, split, strict=strict, one_based=one_based, separator=separator)
    scores: dict[str, Scores] = {}
    differences: dict[str, dict[str, Difference]] = {}
    matches: dict[str, Matches] = {}
    facts: dict[str, dict[str, str]] = {}
    first = None
    notes: list[str] = []
    with pool.limited(threads):
        for name, path in zip(names, models, strict=True):
            opened = load(path)
            found = match(opened, dataset, depth=max(ks), strict=strict, name=name)
            scores[name] = score_matches(found, ks=ks, seed=seed)
            if report is not None:  # else the rankings of one model may go before the next comes
                matches[name] = found
            trained = f"{opened.n_train:,} documents, {len(opened.labels):,} labels"
            facts[name] = {"Recipe": opened.card.recipe, "Trained on": trained}
            if first is None:
                first, n_train = found, opened.n_train
                continue
            if opened.n_train != n_train:
                notes.append(f"{name} was trained on other documents than {names[0]}: PSP weighs labels unlike.")
                logger.warning("%s", notes[-1])
            differences[name] = difference(first, found, ks=ks, seed=seed)
    if report is not None:
        from treetop.evaluate.examples import Examples
        from treetop.evaluate.versus import Versus, write_versus

        examples = Examples.of(matches, dataset, k=max(ks))
        page = Versus(f"{Path(data).name} ({split})", facts, scores, differences, examples, " ".join(notes))
        typer.echo(f"report: {write_versus(report, page)}", err=True)
    if as_json:
        plain = {name: {key: dataclasses.asdict(d) for key, d in rows.items()} for name, rows in differences.items()}
        made = {"models": {name: found.to_dict() for name, found in scores.items()}, "against": names[0]}
        typer.echo(json.dumps({**made, "differences": plain}, ensure_ascii=False))
        return
    from rich.console import Console

    _show(Console(), scores, differences)


def _names(models: list[Path]) -> list[str]:
    """Folder names where they tell the models apart, else whole paths; the same folder twice is numbered."""
    short = [path.name or str(path) for path in models]
    names = short if len(set(short)) == len(short) else [str(path) for path in models]
    return [name if names.index(name) == i else f"{name} ({i + 1})" for i, name in enumerate(names)]


def _show(console: Console, scores: dict[str, Scores], differences: dict[str, dict[str, Difference]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for name in scores:
        table.add_column(Text(name), justify="right")
        if name in differences:
            table.add_column("difference", no_wrap=True)
            table.add_column("p", no_wrap=True)
    for metric in next(iter(scores.values())).values:
        best = max(found[metric] for found in scores.values())
        cells = []
        for name, found in scores.items():
            value = f"{found[metric]:.2f}"
            cells.append(f"[bold]{value}[/bold]" if found[metric] == best and len(scores) > 1 else value)
            if name in differences:
                d = differences[name].get(metric)
                cells += ["", ""] if d is None else _difference(d)
        table.add_row(metric, *cells)
    print_whole(console, table)
    if differences:
        first = next(iter(scores))
        console.print(Text(f"\nDifferences from {first} on the same documents, 95 % intervals; p by random exchange."))


def _difference(d: Difference) -> list[str]:
    low, high = d.interval
    colour = "dim" if low <= 0 <= high else "green" if d.value > 0 else "red"
    return [f"[{colour}]{d.value:+.2f} ({low:+.2f} to {high:+.2f})[/{colour}]", f"{d.p:.4f}"]
