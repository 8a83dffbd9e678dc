"""`treetop calibrate`: probabilities for a trained model, fitted on documents it was not trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treetop.cli.reading import DataOptions, reads_data
from treetop.cli.streams import confirm, note


@reads_data
def calibrate(
    model: Annotated[Path, typer.Argument(help="Model folder.")],
    data: Annotated[str, typer.Argument(metavar="DATA", help="Folder, file or bundled name: held-out documents.")],
    split: Annotated[str, typer.Option(help="Split of the data.")] = "valid",
    out: Annotated[Path | None, typer.Option(help="Folder for the calibrated model. Default: in place.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing model in --out.")] = False,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads; default: all cores. Never changes results.")
    ] = None,
    *,
    reading: DataOptions,
) -> None:
    """Give a model's labels probabilities, so that --threshold, --precision and --recall of `treetop predict` work.

    Needs at least 500 labelled documents that the model was not trained on. Rankings and scores stay as they are.
    """
    from treetop.assemble.held_out.scores import calibrated
    from treetop.core.sealed import unseal
    from treetop.core.target import check_target
    from treetop.kernels.runtime import threads as pool
    from treetop.model import load

    if out is not None:
        check_target(out, overwrite=overwrite)
    source = reading.source(data, out or model)
    opened = load(model, check="full")
    with pool.limited(threads):
        ready = calibrated(opened, source.read(split, opened.labels))
    run = unseal(model / "run.json") if (model / "run.json").is_file() else {}
    facts = {name: value for name, value in run.items() if name not in {"sha256", "saved", "host"}}
    ready.save(model if out is None else out, overwrite=out is None or overwrite, run=facts)
    for precision in (0.9, 0.7, 0.5):
        threshold = ready.calibration and ready.calibration.threshold_for_precision(precision)
        if threshold is not None:
            note(f"precision {precision:g}: labels of a probability of {threshold:.3f} or more")
    confirm(str(model if out is None else out))
