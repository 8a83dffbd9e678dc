"""`treetop labels apply`: changes to labels carried from one model to another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treetop.cli.streams import confirm
from treetop.core.errors import WorkError
from treetop.core.log import logger


def apply(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="Model folder whose label changes are read.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="Model folder that gets them.")],
) -> None:
    """Make the label changes of one model in another, matched by id; those that do not apply are listed."""
    from treetop.edit.carry import carried
    from treetop.model import load

    before, model = load(old).edits, load(new)
    if before is None or not before.live():
        raise WorkError(f"{old}: has no label changes. Nothing was applied to {new}.")
    model, made = carried(before, model)
    if not made.steps:
        lost = f" ({made.describe_lost()})" if made.lost else ""
        raise WorkError(
            f"{new}: there is nothing left to carry over: {made.given:,} label changes are there already, "
            f"{len(made.lost):,} are of labels that it does not have{lost}."
        )
    model.save(new)
    confirm(f"{new}: {made.describe()}")
    if made.lost:
        logger.warning("%s: it has no such label, so not applied: %s.", new, made.describe_lost())
