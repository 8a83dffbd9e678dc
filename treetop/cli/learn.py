"""`treetop learn`: a model learns new rows of text and labels; only functions of their labels change."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treetop.cli.labels import AsJson, By, Folder, Note
from treetop.cli.reading import DataOptions, reads_data
from treetop.cli.streams import as_text, confirm, json_line


@reads_data
def learn(
    model: Folder,
    rows: Annotated[
        str, typer.Argument(metavar="ROWS", help="Data with new rows of text and labels.", callback=as_text)
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for the model that learned; default: MODEL itself learns.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="With --out: replace an existing model.")] = False,
    by: By = "",
    note: Note = "",
    as_json: AsJson = False,
    *,
    reading: DataOptions,
) -> None:
    """Learn from new rows (linear trees): the functions of their labels move, unknown labels are added, all else stays.

    The change is stored beside the trained files; `treetop labels undo` takes it back.
    """
    from treetop.core.errors import ConfigError
    from treetop.core.target import check_target
    from treetop.model import load

    if overwrite and out is None:
        raise ConfigError("--overwrite: is for --out. Without it MODEL itself learns.")
    if out is not None:
        check_target(out, overwrite=overwrite)
    opened = load(model)
    before = 0 if opened.edits is None else len(opened.edits.log)
    changed = opened.learn(reading.source(rows).read(known=opened.labels), who=by, note=note)
    saved = changed.save(model if out is None else out, overwrite=overwrite)
    entries = [] if saved.edits is None else [edit.entry for edit in saved.edits.log[before:]]
    if as_json:
        for number, entry in enumerate(entries, before + 1):
            confirm(json_line({"number": number, **{k: v for k, v in entry.items() if k != "files"}}))
        return
    done = {"learn": "learned further", "add": "added"}
    told = ", ".join(f"{e['labels']:,} label{'s' if e['labels'] != 1 else ''} {done[e['action']]}" for e in entries)
    numbers = " and ".join(str(number) for number, _ in enumerate(entries, before + 1))
    confirm(f"{out or model}: {told} (change{'s' if len(entries) != 1 else ''} {numbers})")
