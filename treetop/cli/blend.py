"""`treetop blend`: several trained models as one that averages their scores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treetop.cli.streams import confirm
from treetop.core.errors import ConfigError


def blend(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL...", help="Model folders, all with the same labels.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder to write the blend to; it does not need the other folders afterwards.")
    ] = None,
    weights: Annotated[str, typer.Option(help="Weight of each model, such as 4,1. Default: equal weights.")] = "",
    how: Annotated[
        str, typer.Option(help="average (of scores from 0 to 1), rank_average or softmax_average.")
    ] = "average",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing model.")] = False,
) -> None:
    """Join trained models into one that averages their scores.

    Choose weights on rows held out from training (`treetop data split`), never on test.
    """
    if out is None:
        raise ConfigError("--out: missing. Name the folder to write the blend to.")
    parsed = _parse(weights)  # report mistakes before models are opened
    from treetop.assemble.blend import blend as join
    from treetop.core.store import check_folder
    from treetop.core.target import check_target
    from treetop.predict.blend import check_weights

    check_target(out, overwrite=overwrite)
    check_weights(parsed, len(models), "models")
    for path in models:
        check_folder(path)
    join(models, parsed, how).save(out, overwrite=overwrite)  # type: ignore[arg-type]
    confirm(str(out))


def _parse(weights: str) -> list[float]:
    """Numbers from a comma-separated list."""
    try:
        return [float(word) for word in weights.split(",")] if weights.strip() else []
    except ValueError:
        raise ConfigError(
            f"--weights: cannot read '{weights}'. Write one number for each model, such as 4,1."
        ) from None
