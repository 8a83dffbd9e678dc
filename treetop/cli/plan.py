"""`treetop plan`: what a job will need on machines that are not there yet."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from treetop.cli import completion
from treetop.cli.streams import confirm, echo
from treetop.core.errors import ConfigError

if TYPE_CHECKING:
    from treetop.assemble.plan.imagined import Size
    from treetop.assemble.plan.outlook import Machines, Outlook
    from treetop.assemble.plan.rates import Rates

MEASURE = "Measure this machine on the bundled data, about a minute of a core, and write the rates to --rates."
RATES = "File of rates that --measure wrote. Default: those that come with treetop."
NUMBER = "such as 1e8"


def plan(
    recipe: Annotated[str, typer.Argument(help="Name of a recipe.", autocompletion=completion.recipes)] = "xr_linear",
    documents: Annotated[float | None, typer.Option(help=f"Training documents, {NUMBER}.")] = None,
    labels: Annotated[float | None, typer.Option(help="Labels, such as 1e7.")] = None,
    tokens: Annotated[float | None, typer.Option(help="Words of a document, such as 32.")] = None,
    labels_per_document: Annotated[float, typer.Option(help="Labels of a document.")] = 5.0,
    label_tokens: Annotated[float, typer.Option(help="Words of a label's name.")] = 4.0,
    machines: Annotated[int, typer.Option(min=1, help="Machines.")] = 1,
    cores: Annotated[int | None, typer.Option(min=1, help="Cores of a machine. Default: those of this one.")] = None,
    gpus: Annotated[int, typer.Option(min=0, help="GPUs of a machine, for recipes with an encoder.")] = 0,
    network: Annotated[float, typer.Option(min=0.001, help="Gbit a second between machines.")] = 10.0,
    price: Annotated[float | None, typer.Option(min=0, help="Price of a machine for an hour.")] = None,
    preset: Annotated[str, typer.Option(help="Preset of the recipe.", autocompletion=completion.presets)] = "default",
    set_: Annotated[list[str] | None, typer.Option("--set", help="A setting, such as trees=3; repeatable.")] = None,
    calibrate: Annotated[bool, typer.Option("--calibrate/--no-calibrate", help="As `treetop fit` has it.")] = True,
    rates: Annotated[Path | None, typer.Option(help=RATES)] = None,
    measure: Annotated[bool, typer.Option("--measure", help=MEASURE)] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Time, memory, network, disk and cost of predictions for data of a given size, before any machine is rented.

    Memory is the recipe's own forecast; times come from rates that were measured once, on one core.
    """
    from treetop.assemble.plan.rates import load_rates
    from treetop.assemble.plan.rates import measure as measured

    if measure:
        if rates is None:
            raise ConfigError("--measure: needs --rates, the file to write, such as --rates rates.json.")
        measured().save_to(rates)
        confirm(str(rates))
        return
    if documents is None or labels is None or tokens is None:
        raise ConfigError(
            "--documents, --labels, --tokens: give all three, such as --documents 1e6 --labels 1e5 --tokens 12."
        )
    from treetop.assemble.plan.imagined import Size
    from treetop.assemble.plan.outlook import Machines, outlook
    from treetop.core.executor.threads import count
    from treetop.training import plan as planned

    size = Size(documents, labels, tokens, labels_per_document, label_tokens)
    place = Machines(machines, cores or count(), gpus, network * 1.25e8, price)
    known = load_rates(rates)
    found = outlook(planned(recipe, preset=preset, settings=set_ or []), size, place, known, calibrate=calibrate)
    if as_json:
        echo(json.dumps(_values(found, size, place, known), indent=1))
        return
    for line in _lines(recipe, found, size, place, known):
        echo(line)


def _values(found: Outlook, size: Size, place: Machines, known: Rates) -> dict[str, Any]:
    values = {"seconds": found.seconds, "cpu_seconds": found.cpu, **asdict(found)}
    values["stages"] = [stage._asdict() for stage in found.stages]
    return {**values, "size": asdict(size), "machines": asdict(place), "rates": known.source}


def _lines(recipe: str, found: Outlook, size: Size, place: Machines, known: Rates) -> list[str]:
    from treetop.core.forecast import duration
    from treetop.core.forecast import size as shown

    cores = f"{place.count} × {place.cores} cores" if place.count > 1 else f"{place.cores} cores"
    gpus = f", {place.count * place.gpus} GPUs" if place.gpus else ""
    lines = [
        f"{recipe}: {size.documents:,.0f} texts of {size.tokens:g} words, {size.labels:,.0f} labels, "
        f"{size.labels_per_document:g} on a text; {cores}{gpus}",
        "",
        f"time      {duration(found.seconds)} ({found.cpu / 3600:,.1f} core hours)",
        *(f"          {duration(stage.seconds):>14}  {stage.name}" for stage in found.stages if stage.seconds >= 0.5),
        f"memory    {shown(found.memory)}"
        + (f" where it starts, {shown(found.memory_worker)} on each other machine" if place.count > 1 else ""),
        f"network   {'not forecast for networks' if found.network is None else shown(found.network)}",
        f"disk      {shown(found.disk)}",
        f"model     {shown(found.model)}",
    ]
    if found.predict is None:
        lines.append("predict   not measured for this recipe")
    else:
        hours = found.predict / 3600 / place.cores
        cost = "" if place.price is None else f", at {place.price:g} an hour {hours * place.price:.2g}"
        lines.append(f"predict   {found.predict:,.0f} core seconds for a million texts{cost}")
    cpu = known.source.get("machine", {}).get("cpu", "this machine")
    lines += ["", f"Rates of one core of {cpu}, {known.source.get('date', '')[:10]}: {known.source.get('command', '')}"]
    if place.gpus:
        lines.append(
            f"GPU: {known.source.get('gpu', 'not measured')}; that several share a training evenly is assumed."
        )
    return lines
