"""`treetop advise`: which recipe to train on given data, within a budget."""

from __future__ import annotations

import dataclasses
import json
import shlex
from typing import Annotated, Any

import typer

from treetop.cli.reading import DataOptions, reads_data
from treetop.cli.streams import echo


@reads_data
def advise(
    data: Annotated[str, typer.Argument(help="Folder with train and labels, one file, or a bundled name (wordnet).")],
    budget: Annotated[str, typer.Option(help="Limits of the training: time=10min,memory=8GB,model=50MB.")] = "",
    candidates: Annotated[
        str, typer.Option(help="Recipes to try, such as xr_linear,unidec:cpu. Default: by data and machine.")
    ] = "",
    device: Annotated[str, typer.Option(help="Device of the encoder: auto, cpu, cuda or cuda:1.")] = "auto",
    seed: Annotated[int, typer.Option(min=0, help="Random seed of samples and trials.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    *,
    reading: DataOptions,
) -> None:
    """Try recipes on samples of the data, and say which to train, what it will reach and how long it will take.

    Trials take a quarter of the time budget at most; without one, 15 minutes are assumed, 5 on a GPU.
    """
    from treetop.assemble.advise.advice import Adviser
    from treetop.assemble.advise.said import lines
    from treetop.core.forecast import parse_budget
    from treetop.core.work import Job
    from treetop.training import check_run, check_trainable, plan

    names = tuple(name.strip() for name in candidates.split(",") if name.strip())
    plan("auto", settings={"candidates": list(names)})  # report mistakes before data is read
    check_run(seed, device)
    limits = parse_budget(budget)
    dataset = reading.source(data).read()
    check_trainable(dataset)
    advice = Adviser(dataset, Job(seed, device), limits, names=names).advise()
    chosen = advice.choice.estimate
    command = " ".join(["treetop fit", chosen.command, shlex.join([data, *reading.words()]), "--out model/"])
    if as_json:
        found: dict[str, Any] = {"facts": dataclasses.asdict(advice.facts), "candidates": advice.table}
        found |= {"chosen": chosen.name, "why": advice.choice.reason, "command": command}
        found |= {"budget_s": advice.seconds, "spent_s": round(advice.spent, 1)}
        echo(json.dumps(found, indent=1))
        return
    echo(advice.facts.describe() + "\n")
    for line in lines(advice):
        echo(line)
    echo(f"\n{command}")
