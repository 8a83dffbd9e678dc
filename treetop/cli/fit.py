"""`treetop fit`: forecast, train, save."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from treetop.cli import completion
from treetop.cli.data import Cluster
from treetop.cli.reading import DataOptions, reads_data
from treetop.cli.streams import confirm, echo
from treetop.core.errors import ConfigError, choose

if TYPE_CHECKING:
    from treetop.core.dataset import Dataset

CALIBRATE = "Calibrate scores on held-out documents: the split `valid`, else 5 % of train. Off: train on all."
FEEDBACK = "File of `treetop serve --feedback`: accepted labels are added to the training rows, rejected ones removed."
DROP_EDITS = "With --overwrite: do not carry changes made by `treetop labels` over to the new model."
KEEP_TEXTS = "Store the training texts in the model, for `explain` to show. Whoever has the model can read them."
SELF_PAIRS = "Documents that are labels themselves: keep or bar their own label; auto: bar it if no document has it."


@reads_data
def fit(
    recipe: Annotated[
        str,
        typer.Argument(
            help="Name of a recipe (`treetop recipes`), with its preset if you like (unidec:cpu).",
            autocompletion=completion.recipes,
        ),
    ],
    data: Annotated[str, typer.Argument(help="Folder with train and labels, one file, or a bundled name (wordnet).")],
    out: Annotated[Path | None, typer.Option(help="Folder to write the model to.")] = None,
    preset: Annotated[
        str, typer.Option(help="Preset: named settings of the recipe.", autocompletion=completion.presets)
    ] = "default",
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="A setting, such as linear.beam=20; repeatable.", autocompletion=completion.settings
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed; the same seed gives the same model.")] = 0,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads; default: all cores. Never changes results.")
    ] = None,
    cluster: Cluster = None,
    device: Annotated[str, typer.Option(help="Device of the encoder: auto, cpu, cuda or cuda:1.")] = "auto",
    budget: Annotated[str, typer.Option(help="Limits: memory=8GB,time=10min,model=50MB.")] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only estimate memory, model size and time; do not train.")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted run.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing model.")] = False,
    drop_edits: Annotated[bool, typer.Option("--drop-edits", help=DROP_EDITS)] = False,
    calibrate: Annotated[bool, typer.Option("--calibrate/--no-calibrate", help=CALIBRATE)] = True,
    aim: Annotated[
        str, typer.Option(help="What a learned fusion optimises: balanced, precision or tail.")
    ] = "balanced",
    keep_texts: Annotated[bool, typer.Option("--keep-texts", help=KEEP_TEXTS)] = False,
    self_pairs: Annotated[str, typer.Option(help=SELF_PAIRS)] = "auto",
    with_feedback: Annotated[Path | None, typer.Option(help=FEEDBACK)] = None,
    *,
    reading: DataOptions,
) -> None:
    """Train a recipe and save the model."""
    from treetop.assemble.held_out.fusion import Aim
    from treetop.assemble.held_out.hold_out import HoldOut, enough
    from treetop.assemble.on_cluster import check_recipe, on_cluster
    from treetop.assemble.self_pairs import Rule
    from treetop.core import spill
    from treetop.core.executor.ray import cluster as sharing
    from treetop.core.forecast import duration, parse_budget, size
    from treetop.core.target import check_target
    from treetop.data.read import splits
    from treetop.training import check_run, check_trainable, describe, plan
    from treetop.training import fit as train

    planned = plan(recipe, preset=preset, settings=set_ or [])  # report mistakes before data is read
    check_run(seed, device)
    choose("--aim", aim, get_args(Aim))
    choose("--self-pairs", self_pairs, get_args(Rule))
    limits = parse_budget(budget)
    if out is None and not dry_run:
        raise ConfigError(
            "--out: missing. Name the folder to write the model to, or add --dry-run to see what training would need."
        )
    if out is not None and not dry_run:
        planned.check_device(device)
        if not (resume and (out / "manifest.json").is_file()):  # a finished run of the same job will do
            check_target(out, overwrite=overwrite)
    if cluster is not None:
        check_recipe(planned.recipe)
    with sharing(cluster):
        with spill.beside(None if dry_run else out, limits.get("memory")):
            source = reading.source(data, out)
            dataset = source.read()
            given = enough(source.read("valid")) if calibrate and "valid" in splits(data) else None
        dataset = dataset if with_feedback is None else _corrected(dataset, with_feedback, given)
        held = HoldOut(calibrate, aim, given)  # type: ignore[arg-type]
        if dry_run:
            check_trainable(dataset)
            needs = planned.forecast(dataset, probe=True, held=held, keep_texts=keep_texts, device=device)
            needs = on_cluster(needs)
            echo(describe(dataset))
            needs = dataclasses.replace(needs, time=needs.time + planned.compiling)
            echo(f"memory  {size(needs.memory)}\nmodel   {size(needs.model)}\ntime    {duration(needs.time)}")
            needs.check(limits, out)
            return
        train(
            recipe, dataset, preset=preset, settings=set_ or [], out=out, resume=resume, overwrite=overwrite, seed=seed,
            threads=threads, device=device, budget=budget, calibrate=calibrate, aim=held.aim, held_out=given,
            keep_texts=keep_texts, self_pairs=self_pairs, drop_edits=drop_edits,  # type: ignore[arg-type]
        )  # fmt: skip
    confirm(str(out))


def _corrected(dataset: Dataset, file: Path, held_out: Dataset | None) -> Dataset:
    """The data with feedback on suggestions merged into the rows; the log has the counts."""
    from treetop.core.log import logger
    from treetop.serve.feedback.store import read_feedback
    from treetop.serve.feedback.training import with_feedback

    corrected, effect = with_feedback(dataset, read_feedback(file), () if held_out is None else held_out.texts)
    logger.info("%s", effect)
    return corrected
