"""`treetop tune`: settings of a recipe that serve given data best."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from treetop.cli import completion
from treetop.cli.reading import DataOptions, reads_data
from treetop.cli.streams import echo
from treetop.core.errors import ConfigError, InputError, choose


@reads_data
def tune(
    recipe: Annotated[
        str, typer.Argument(help="Name of a recipe; see `treetop recipes`.", autocompletion=completion.recipes)
    ],
    data: Annotated[str, typer.Argument(help="Folder with train and labels, one file, or a bundled name (wordnet).")],
    budget: Annotated[str, typer.Option(help="Time for all tries: time=10min.")] = "time=10min",
    preset: Annotated[
        str, typer.Option(help="Preset that the search starts from.", autocompletion=completion.presets)
    ] = "default",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting to keep fixed; repeatable.", autocompletion=completion.settings),
    ] = None,
    aim: Annotated[str, typer.Option(help="What to optimise: balanced, precision or tail.")] = "balanced",
    out: Annotated[
        Path | None,
        typer.Option(help="YAML file for the best settings, to use as --preset; tries are recorded next to it."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted search.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of samples and settings.")] = 0,
    device: Annotated[str, typer.Option(help="Device of the encoder: auto, cpu, cuda or cuda:1.")] = "auto",
    *,
    reading: DataOptions,
) -> None:
    """Try settings of a recipe on growing samples, judged on held-out documents, and print the best.

    The settings that are tried are those that the recipe lists; those given by --set stay as they are.
    """
    from treetop.assemble.held_out.fusion import Aim
    from treetop.assemble.tune.halving import best, table
    from treetop.assemble.tune.space import as_words, nested, space
    from treetop.core.config import merged, override, read_yaml
    from treetop.core.forecast import parse_budget
    from treetop.training import check_run, check_trainable, plan, preset_file

    fixed = list(set_ or [])
    planned = plan(recipe, preset=preset, settings=fixed)  # report mistakes before data is read
    names = {word.partition("=")[0].strip() for word in fixed}
    values = {name: listed for name, listed in space(recipe).items() if name not in names}
    check_run(seed, device)
    choose("--aim", aim, get_args(Aim))
    limits = parse_budget(budget)
    if limits.keys() != {"time"}:
        raise ConfigError("--budget: tune takes a time only. Write time=10min.")
    if out is not None and out.suffix != ".yaml":
        raise ConfigError(f"--out {out}: the best settings are written as YAML. Give a name that ends in .yaml.")
    planned.check_device(device)
    dataset = reading.source(data, out).read()
    check_trainable(dataset)
    base = {} if preset == "default" else read_yaml(preset_file(planned.recipe.rpartition("+")[2], preset))
    base = override(base, fixed)
    job = {"recipe": recipe, "settings": base, "data": dataset.fingerprint, "seed": seed, "aim": aim}
    search = _search(recipe, base, dataset, values, job, limits["time"], device, out, resume)
    ranked = search.run()
    for line in table(search.tries.done):
        echo(line)
    found = best(ranked)
    if found is None:
        echo(f"\nNothing beats {'the defaults' if not base else 'these settings'} by more than chance: keep them.")
    else:
        start = f" --preset {preset}" if preset != "default" else ""
        words = " ".join([*(f"--set {word}" for word in fixed), as_words(found.settings)])
        echo(f"\ntreetop fit {recipe} {shlex.join([data, *reading.words()])}{start} {words} --out model/")
    if out is not None:
        import yaml

        chosen = merged(base, nested(found.settings)) if found is not None else base
        out.write_text(yaml.safe_dump(chosen, sort_keys=True), encoding="utf-8")


def _search(
    recipe: str, base: dict[str, Any], dataset: Any, values: dict[str, list[Any]], job: dict[str, Any], seconds: float,
    device: str, out: Path | None, resume: bool,
) -> Any:  # fmt: skip
    from treetop.assemble.advise.clock import Clock
    from treetop.assemble.advise.judging import folds
    from treetop.assemble.advise.trials import Bench
    from treetop.assemble.tune.halving import Search
    from treetop.assemble.tune.space import nested
    from treetop.assemble.tune.tries import Tries
    from treetop.core.config import merged
    from treetop.core.work import Job
    from treetop.training import Plan, plan

    found = folds(dataset, job["seed"])
    if not found:
        raise InputError(f"{dataset.name}: too few documents with labels to hold some out. Add rows.")
    tries = Tries.open(None if out is None else out.with_suffix(".tries.jsonl"), job, resume=resume)
    run = Job(job["seed"], device, reads={})
    bench = Bench(dataset, found, run, Clock(seconds), time.monotonic, job["aim"])

    def planned(changes: dict[str, Any]) -> Plan:
        return plan(recipe, settings=merged(base, nested(changes))).settled(dataset)

    return Search(bench, planned, values, tries)
