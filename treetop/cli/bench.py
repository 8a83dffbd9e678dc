"""`treetop bench`: treetop and its peers on the same matrices, and the tables made from the records."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Measure treetop and its peers side by side.", no_args_is_help=True)
Root = Annotated[Path, typer.Option(help="The repository: peers/, build/ and benchmarks/ lie here.")]


@app.command()
def peers(
    data: Annotated[Path, typer.Option(help="Folder with the benchmark's data sets.")] = Path("../shared/data"),
    dataset: Annotated[list[str] | None, typer.Option(help="Only these data sets.")] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="Only these methods; 'peers' or 'treetop': all such.")
    ] = None,
    reps: Annotated[int, typer.Option(min=1, help="Repetitions of every cell, interleaved.")] = 3,
    fresh: Annotated[bool, typer.Option("--fresh", help="Run cells again that have a record.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the cells and stop.")] = False,
    threads: Annotated[int, typer.Option(min=1, help="Threads every system gets.")] = 2,
    seed: Annotated[int, typer.Option(min=0, help="Of every system that takes one.")] = 0,
    run: Annotated[str, typer.Option(help="Folder of the records under benchmarks/results.")] = "peers",
    root: Root = Path(),
) -> None:
    """Set up the peers' environments and run every cell (data set, method, repetition) that has no record yet."""
    from treetop.bench import methods as known
    from treetop.bench import peers as runner
    from treetop.core.errors import InputError, choose

    usual = [*known.BIG, *known.SMALL, known.SYNTHETIC]
    names = [choose("--dataset", name, known.ALL) for name in dataset or usual]
    bench = runner.Bench(root, data, threads=threads, seed=seed, run=run)
    chosen = known.select(method)
    if not data.is_dir() and names != [known.SYNTHETIC]:
        raise InputError(f"--data {data}: no such folder. Give the one that holds {', '.join(names)}.")
    if dry_run:
        for name, one, rep in runner.plan(chosen, names, reps):
            state = "done" if bench.cell(name, one, rep).exists() else "to do"
            typer.echo(f"{name}  {one.name}  repetition {rep}  {state}")
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as an exception, so that the running peer is ended too
    made = runner.run(bench, chosen, names, reps=reps, fresh=fresh)
    typer.echo(f"{len(made)} records in {bench.results}")


@app.command()
def recipe(
    name: Annotated[str, typer.Argument(help="Name of a recipe.")],
    data: Annotated[str, typer.Argument(help="Folder or bundled name.")],
    preset: Annotated[str, typer.Option(help="Named settings of the recipe.")] = "default",
    set_: Annotated[list[str] | None, typer.Option("--set", help="One setting; repeatable.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the training.")] = 0,
    tag: Annotated[str, typer.Option(help="Added to the record's name.")] = "",
    root: Root = Path(),
) -> None:
    """Fit and test one recipe and record it under benchmarks/results/recipes."""
    from treetop.bench import record
    from treetop.bench.recipe import measure

    values = measure(name, data, preset=preset, settings=set_ or [], seed=seed, root=root)
    folder = root / "benchmarks" / "results" / "recipes" / values["data"]["name"]
    file = folder / f"{name}{'-' + tag if tag else ''}.json"
    record.write(file, values)
    typer.echo(f"{file}: P@1 {values['scores']['P@1']:.2f}, P@5 {values['scores']['P@5']:.2f}")


@app.command()
def variants(
    dataset: Annotated[list[str] | None, typer.Option(help="Only these data sets.")] = None,
    data: Annotated[Path, typer.Option(help="Folder with the benchmark's data sets.")] = Path("../shared/data"),
    seed: Annotated[int, typer.Option(min=0, help="Of every training.")] = 0,
    root: Root = Path(),
) -> None:
    """Train XR-Linear with one choice changed at a time and record what each is worth."""
    from treetop.bench.methods import BIG
    from treetop.bench.variants import run

    for file in run(dataset or BIG, data=data, root=root, seed=seed):
        typer.echo(str(file))


@app.command()
def pages(root: Root = Path()) -> None:
    """Write the pages of docs/ that are made from the code."""
    from treetop.bench import generated, pages

    docs = root / "docs"
    for file in generated.write(docs, pages.pages(docs)):
        typer.echo(f"{file}: updated")


@app.command()
def tables(
    files: Annotated[list[Path] | None, typer.Argument(help="Default: README.md, docs/ and benchmarks/.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Change nothing; exit 1 when a table is out of date.")] = False,
    root: Root = Path(),
) -> None:
    """Write the tables of Markdown files from the records in benchmarks/results."""
    from treetop.bench.tables import scores, update

    pages = files or [root / "README.md", *sorted((root / "docs").rglob("*.md")), root / "benchmarks" / "README.md"]
    scored = json.dumps(scores(root / "benchmarks" / "results"), indent=1, sort_keys=True) + "\n"
    listed = root / "treetop" / "recipes" / "scores.json"
    current = listed.read_text(encoding="utf-8") if listed.exists() else ""
    if not check and listed.parent.is_dir() and current != scored:
        listed.write_text(scored, encoding="utf-8")
    stale = [page for page in pages if update(page, root / "benchmarks" / "results", check=check)]
    for page in stale:
        typer.echo(f"{page}: {'out of date' if check else 'updated'}")
    if check and stale:
        raise typer.Exit(1)


@app.command()
def figures(
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit 1 when a figure is out of date.")
    ] = False,
    root: Root = Path(),
) -> None:
    """Draw the figures of docs/figures from the records in benchmarks/results."""
    from treetop.bench import figures, generated

    changed = (generated.stale if check else generated.write)(
        root / "docs" / "figures", figures.figures(root / "benchmarks" / "results")
    )
    for file in changed:
        typer.echo(f"{file}: {'out of date' if check else 'updated'}")
    if check and changed:
        raise typer.Exit(1)
