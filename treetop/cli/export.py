"""`treetop export`: a model for other runtimes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treetop.cli.streams import confirm


def export(
    model: Annotated[Path, typer.Argument(help="Model folder.")],
    form: Annotated[str, typer.Argument(metavar="FORM", help="onnx.")],
    out: Annotated[Path, typer.Option(help="Folder to write.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier export.")] = False,
) -> None:
    """Write a model as an ONNX graph with its labels, and check that it repeats the golden inputs' answers.

    The folder has the graph (token ids or tf-idf values in, labels and scores out), labels.jsonl, what turns texts into
    the inputs (tokenizer.json or terms.jsonl) and export.json, which describes them.
    """
    from treetop.core.errors import choose

    choose("FORM", form, ["onnx"])
    from treetop.export.folder import export_onnx
    from treetop.model import load

    opened = load(model)
    export_onnx(opened, out, overwrite=overwrite)
    confirm(
        f"{out}: exported ({len(opened.labels):,} labels, {len(opened.golden)} golden inputs with the same answers)"
    )
