"""`treetop labels apply`, `export` and `import`: labels and their changes between models and files."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from treetop.cli.label_fields import fields_of
from treetop.cli.streams import as_text, confirm
from treetop.core.errors import ConfigError, DataError, WorkError
from treetop.core.log import logger

if TYPE_CHECKING:
    from treetop.model import Model

Folder = Annotated[Path, typer.Argument(metavar="MODEL", help="Model folder.")]
FIELDS = ("name", "text", "status", "into")
STATUS = ("active", "retired")
SKOS = {".ttl", ".nt", ".rdf", ".xml"}


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
        learned = f" And {made.describe_learned()}" if made.learned else ""
        raise WorkError(
            f"{new}: there is nothing left to carry over: {made.given:,} label changes are there already, "
            f"{len(made.lost):,} are of labels that it does not have{lost}.{learned}"
        )
    model.save(new)
    confirm(f"{new}: {made.describe(' carried over')}")
    if learned := made.describe_learned():
        logger.warning("%s: %s", new, learned)
    if made.lost:
        logger.warning("%s: it has no such label, so not applied: %s.", new, made.describe_lost())


def export(
    model: Folder,
    to: Annotated[Path, typer.Option("--to", help="File to write: .csv, or .ttl (SKOS).")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
) -> None:
    """Write all labels to a file, as they are now: id, name, text, status, into; or as SKOS."""
    from treetop.core.target import check_new_file, replacing_file
    from treetop.data.formats.skos import turtle
    from treetop.model import load

    if to.suffix.lower() not in {".csv", ".ttl"}:
        raise ConfigError(f"--to: '{to.name}' is neither a .csv nor a .ttl file. Choose one of the two.")
    check_new_file(to, overwrite=overwrite)
    opened = load(model)
    with replacing_file(to) as file:
        if to.suffix.lower() == ".ttl":
            file.writelines(turtle(opened.labels, {} if opened.edits is None else opened.edits.merged))
        else:
            csv.writer(file).writerows(_cells(opened))
    confirm(f"{to}: {len(opened.labels):,} labels")


def _cells(model: Model) -> Iterator[tuple[str, ...]]:
    labels, merged = model.labels, {} if model.edits is None else model.edits.merged
    yield ("id", *FIELDS)
    rows = zip(labels.ids, labels.names, labels.texts, labels.status.tolist(), strict=True)
    for column, (id_, name, text, status) in enumerate(rows):
        yield id_, name, text, STATUS[status], labels.ids[merged[column]] if column in merged else ""


def import_(
    model: Folder,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Labels as they should be: .csv, .jsonl, ... or SKOS.")],
    language: Annotated[
        str, typer.Option("--language", help="Language of the names in SKOS.", callback=as_text)
    ] = "en",
    by: Annotated[str, typer.Option("--by", help="Who changes the model; default: the user.", callback=as_text)] = "",
    note: Annotated[str, typer.Option("--note", help="Reason, recorded in the log.", callback=as_text)] = "",
) -> None:
    """Make a model's labels those of a file: new names, texts (not of SKOS), status and `into` become changes."""
    from treetop.edit.carry import applied
    from treetop.edit.changes import By
    from treetop.edit.listed import differences
    from treetop.model import load

    wanted = _concepts(file, language) if file.suffix.lower() in SKOS else _rows(file)
    opened = load(model)
    plan = differences(opened, wanted, By(by, note))
    unknown = [id_ for _, id_ in plan.lost]
    if unknown:
        shown = ", ".join(unknown[:5]) + (", ..." if len(unknown) > 5 else "")
        logger.warning("%s: %s ids that the model does not know are left out: %s.", file, f"{len(unknown):,}", shown)
    plan.lost.clear()
    changed, made = applied(plan, opened)
    if made.lost:
        raise WorkError(f"{file}: {made.describe_lost()} is impossible here, so nothing was changed. Correct the file.")
    if not made.steps:
        confirm(f"{model}: nothing to change")
        return
    changed.save(model)
    confirm(f"{model}: {made.describe()}")


def _rows(file: Path) -> Mapping[str, Mapping[str, str]]:
    """{id: fields} of a table of labels."""
    wanted = {}
    for id_, (line, fields) in fields_of(file, FIELDS).items():
        if fields.get("status", "active") not in STATUS:
            raise DataError(
                f"status of label '{id_}' is '{fields['status']}'. Choose one of active, retired.", file=file, line=line
            )
        if bad := [name for name, value in fields.items() if not isinstance(value, str)]:
            raise DataError(f"field '{bad[0]}' of label '{id_}' is not a string. Correct it.", file=file, line=line)
        wanted[id_] = fields
    return wanted


def _concepts(file: Path, language: str) -> Mapping[str, Mapping[str, str]]:
    """{id: name and status} of the concepts of a vocabulary; one without a name keeps that of the model."""
    from treetop.data.formats.skos import read_labels, read_successors
    from treetop.data.parse.rows import Reading

    if not file.is_file():
        raise DataError("no such file. Give a file of labels.", file=file)
    reading = Reading(language=language)
    labels, heirs = read_labels(file, reading), read_successors(file, reading)
    rows = zip(labels.ids, labels.names, labels.status.tolist(), strict=True)
    return {
        id_: ({"into": heirs[id_]} if id_ in heirs else {"status": STATUS[status]})
        | ({"name": name} if name != id_ else {})
        for id_, name, status in rows
    }
