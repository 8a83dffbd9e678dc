"""`treetop demo`: the whole pipeline on bundled data, in a minute."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

RECIPE = "xr_linear"
EXAMPLES = ("a small domestic cat with long fur", "to move quickly on foot", "a machine that computes")


def demo(
    out: Annotated[Path | None, typer.Option(help="Keep the model in this folder.")] = None,
    recipe: Annotated[str, typer.Option(help="Recipe to train.")] = RECIPE,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing model.")] = False,
) -> None:
    """Fit, evaluate, predict and explain on bundled WordNet data: which broader concepts does a definition have?"""
    from rich.console import Console
    from rich.table import Table

    from treetop.core.dataset import Dataset
    from treetop.core.target import check_target
    from treetop.training import describe, fit

    if out is not None:
        check_target(out, overwrite=overwrite)
    console = Console()
    train, test = Dataset.read("wordnet"), Dataset.read("wordnet", "test")
    console.print(f"[bold]Data[/bold]   {describe(train)}")
    started = time.monotonic()
    model = fit(recipe, train, out=out, resume=not overwrite, overwrite=overwrite)
    console.print(f"[bold]Fit[/bold]    {recipe} in {time.monotonic() - started:.1f} s")
    started = time.monotonic()
    scores = model.evaluate(test, resamples=200)
    console.print(f"[bold]Test[/bold]   {len(test):,} unseen texts in {time.monotonic() - started:.1f} s\n")
    table = Table("", "@1", "@3", "@5", "@10", box=None, pad_edge=False)
    for metric in ("P", "nDCG", "R", "PSP"):
        table.add_row(metric, *(f"{scores[f'{metric}@{k}']:.2f}" for k in (1, 3, 5, 10)))
    console.print(table)
    for text in EXAMPLES:
        console.print(f"\n[bold]{text}[/bold]")
        for label in model.predict(text, k=5):
            console.print(f"  {label.score:6.3f}  {_short(label.name)}", markup=False, highlight=False)
    explanation = max(model.explain(EXAMPLES[0], k=5), key=lambda item: len(item.words))
    words = ", ".join(f"{word.term} {word.contribution:+.2f}" for word in explanation.words[:5])
    if words:
        console.print(f"\n[bold]Why[/bold] {_short(explanation.label)}? {words}", highlight=False)
    console.print("\nWhat to try next:")
    for line in (
        "treetop data stats wordnet",
        "treetop fit xr_linear my-data.jsonl --out model/",
        "echo 'a domestic cat' | treetop predict model/ -k 3",
        "treetop recipes",
    ):
        console.print(f"  {line}", style="cyan", markup=False, highlight=False)


def _short(name: str) -> str:
    return name if len(name) <= 60 else name[:59].rstrip() + "…"
