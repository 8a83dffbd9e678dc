"""`treetop verify`: every byte of a model folder, and its golden inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treetop.cli.streams import confirm


def verify(model: Annotated[Path, typer.Argument(help="Model folder.")]) -> None:
    """Check all hashes of a model folder and repeat its golden inputs."""
    from treetop.model import load

    opened = load(model, check="full")
    opened.check_golden()
    changes = 0 if opened.edits is None else len(opened.edits.log)
    changed = f", {changes:,} label change{'s' if changes > 1 else ''}" if changes else ""
    confirm(
        f"{model}: intact ({len(opened.labels):,} labels{changed}, {len(opened.golden)} golden inputs with the same "
        "answers)"
    )
