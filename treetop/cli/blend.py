"""`treetop blend`: trained models as one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from treetop.cli.reading import DataOptions, reads_data
from treetop.cli.streams import confirm
from treetop.core.errors import ConfigError, choose

HELD_OUT = "Documents that no model was trained on, to learn a fusion of their scores."


@reads_data
def blend(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL...", help="Model folders, all with the same labels.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder to write the blend to; it does not need the other folders afterwards.")
    ] = None,
    weights: Annotated[str, typer.Option(help="Weight of each model, such as 4,1. Default: equal weights.")] = "",
    how: Annotated[
        str, typer.Option(help="average (of scores from 0 to 1), rank_average or softmax_average.")
    ] = "average",
    held_out: Annotated[str, typer.Option(metavar="DATA", help=HELD_OUT)] = "",
    split: Annotated[str, typer.Option(help="Split of the held-out data.")] = "valid",
    aim: Annotated[
        str, typer.Option(help="What the learned fusion optimises: balanced, precision or tail.")
    ] = "balanced",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing model.")] = False,
    *,
    reading: DataOptions,
) -> None:
    """Join trained models into one: average their scores, or learn a fusion of them.

    Learn the fusion, or choose weights, on rows held out from training (`treetop data split`), never on test.
    """
    if out is None:
        raise ConfigError("--out: missing. Name the folder to write the blend to.")
    parsed = _parse(weights)  # report mistakes before models are opened
    from treetop.assemble.blend import blend as join
    from treetop.assemble.held_out.fusion import Aim
    from treetop.core.store import check_folder
    from treetop.core.target import check_target
    from treetop.predict.blend import Blend, check_weights

    check_target(out, overwrite=overwrite)
    check_weights(parsed, len(models), "models")
    choose("--aim", aim, get_args(Aim))
    for path in models:
        check_folder(path)
    rows = reading.source(held_out, out).read(split) if held_out else None
    join(models, parsed, cast(Blend, how), held_out=rows, aim=cast(Aim, aim)).save(out, overwrite=overwrite)
    confirm(str(out))


def _parse(weights: str) -> list[float]:
    """Numbers from a comma-separated list."""
    try:
        return [float(word) for word in weights.split(",")] if weights.strip() else []
    except ValueError:
        raise ConfigError(
            f"--weights: cannot read '{weights}'. Write one number for each model, such as 4,1."
        ) from None
