"""`treetop adapt`: continue to train an encoder on texts without labels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treetop.cli.reading import DataOptions, reads_data
from treetop.cli.streams import confirm, echo
from treetop.core.errors import ConfigError

OBJECTIVE = "simcse: tell a text, read twice with dropout, from others; mlm: guess hidden words."


@reads_data
def adapt(
    encoder: Annotated[
        str, typer.Argument(help="Folder, treetop model, offline package or hub name of an encoder.", metavar="ENCODER")
    ],
    data: Annotated[str, typer.Argument(help="Folder with train and labels, one file, or a bundled name (wordnet).")],
    out: Annotated[Path | None, typer.Option(help="Folder to write the encoder to.")] = None,
    objective: Annotated[str, typer.Option(help=OBJECTIVE)] = "simcse",
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A setting, such as train.epochs=3; repeatable (docs/adapt.md).")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed; the same seed gives the same encoder.")] = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads; default: all cores.")] = None,
    device: Annotated[str, typer.Option(help="Device of the encoder: auto, cpu, cuda or cuda:1.")] = "auto",
    budget: Annotated[str, typer.Option(help="Limits: memory=8GB,time=10min.")] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only estimate memory, size and time; do not train.")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted run.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an encoder that was adapted before.")] = False,
    *,
    reading: DataOptions,
) -> None:
    """Continue to train an encoder on the texts of documents and labels, without labels.

    Any recipe takes the folder: `treetop fit unidec DATA --set encoder.model=FOLDER`.
    """
    from treetop.assemble.adapt import RECORD, Adaptation, texts_of
    from treetop.assemble.adapt import adapt as train
    from treetop.core.forecast import duration, for_device, parse_budget, size
    from treetop.core.target import check_target
    from treetop.training import check_run

    planned = Adaptation.of(encoder, objective, set_ or [])  # report mistakes before data is read
    check_run(seed, device)
    limits = parse_budget(budget)
    if out is None and not dry_run:
        raise ConfigError(
            "--out: missing. Name the folder to write the encoder to, or add --dry-run to see what it would take."
        )
    if out is not None and not dry_run and not (resume and (out / RECORD).is_file()):
        check_target(out, overwrite=overwrite)
    dataset = reading.source(data, out).read()
    if dry_run:
        with for_device(device):
            needs = planned.forecast(texts_of(dataset, planned.config.texts))
        echo(f"memory  {size(needs.memory)}\nencoder {size(needs.model)}\ntime    {duration(needs.time)}")
        needs.check(limits, out)
        return
    folder = train(
        encoder, dataset, out=str(out), objective=objective, settings=set_ or [], seed=seed, threads=threads,
        device=device, budget=budget, resume=resume, overwrite=overwrite,
    )  # fmt: skip
    confirm(str(folder))
