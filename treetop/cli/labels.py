"""`treetop labels`: a trained model's labels added, retired, restored, renamed, merged and listed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from treetop.cli.label_fields import fields_of
from treetop.cli.label_transfer import apply, export, import_
from treetop.cli.reading import DataOptions, reads_data
from treetop.cli.review import review
from treetop.cli.streams import as_text, confirm, echo, json_line
from treetop.core.errors import ConfigError, DataError, LabelError, visible

if TYPE_CHECKING:
    from treetop.model import Model

app = typer.Typer(
    help="Add, retire, restore, rename, merge and list a model's labels; review feedback.", no_args_is_help=True
)
app.command()(review)
app.command()(apply)
app.command()(export)
app.command("import")(import_)

Folder = Annotated[Path, typer.Argument(metavar="MODEL", help="Model folder.")]
Labels = Annotated[list[str] | None, typer.Argument(metavar="[LABEL]...", help="Ids or names.", callback=as_text)]
File = Annotated[Path | None, typer.Option("--file", help="File of labels with `id`: .jsonl, .csv, .tsv, .parquet.")]
By = Annotated[str, typer.Option("--by", help="Who changes the model; default: the user's name.", callback=as_text)]
Note = Annotated[str, typer.Option("--note", help="Reason, recorded in the log.", callback=as_text)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
EXAMPLES = (
    "Data with rows of text and labels, from which linear trees learn the new labels (default: all unknown ones)."
)
Status = Literal["all", "active", "retired", "added"]
DONE = {
    "add": "added",
    "learn": "learned further",
    "retire": "retired",
    "restore": "restored",
    "rename": "renamed",
    "merge": "merged",
    "undo": "as before",
}


@app.command()
@reads_data
def add(
    model: Folder,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="File of labels with `id` and `text`: .jsonl, .csv, ...")
    ] = None,
    examples: Annotated[str, typer.Option("--examples", help=EXAMPLES, callback=as_text)] = "",
    by: By = "",
    note: Note = "",
    as_json: AsJson = False,
    *,
    reading: DataOptions,
) -> None:
    """Add new labels: by their texts, without training (recipes with an encoder), or by examples (linear trees)."""
    from treetop.data.label_files import read_label_file

    if file is None and not examples:
        raise ConfigError("labels add: give a file of labels, or --examples with rows of text and labels, or both.")
    opened, new, lines, rows = _open(model), None, list[int](), None
    if file is not None:
        new, lines = read_label_file(file)
    if examples:
        rows = reading.source(examples).read()
    with _blamed(file, dict(zip(() if new is None else new.ids, lines, strict=True))):
        changed = opened.add_labels(new, examples=rows, who=by, note=note)
    _save(model, changed, as_json)


@app.command()
def retire(
    model: Folder, labels: Labels = None, file: File = None, by: By = "", note: Note = "", as_json: AsJson = False
) -> None:
    """Never return these labels again, until they are restored."""
    named, opened = _named(labels, file), _open(model)
    with _blamed(file, named):
        changed = opened.retire_labels(list(named), who=by, note=note)
    _save(model, changed, as_json)


@app.command()
def restore(
    model: Folder, labels: Labels = None, file: File = None, by: By = "", note: Note = "", as_json: AsJson = False
) -> None:
    """Return retired or merged labels again."""
    named, opened = _named(labels, file), _open(model)
    with _blamed(file, named):
        changed = opened.restore_labels(list(named), who=by, note=note)
    _save(model, changed, as_json)


@app.command()
def rename(
    model: Folder,
    label: Annotated[str, typer.Argument(metavar="[LABEL]", help="Id or name.", callback=as_text)] = "",
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="The new name.", callback=as_text)] = "",
    text: Annotated[str, typer.Option("--text", help="The new text.", callback=as_text)] = "",
    re_encode: Annotated[
        bool, typer.Option("--re-encode", help="Recompute the vectors of labels that were added by text.")
    ] = False,
    file: File = None,
    by: By = "",
    note: Note = "",
    as_json: AsJson = False,
) -> None:
    """Give a label another name or text (or many, by a file with `id`, `name`, `text`); its scores stay."""
    if bool(label) == (file is not None):
        raise ConfigError("labels rename: name a label and its new name, or give --file. One of the two is needed.")
    given = {key: value for key, value in (("name", name), ("text", text)) if value}
    rows = {label: (0, given)} if file is None else fields_of(file, ("name", "text"))
    wanted = {id_: fields for id_, (_, fields) in rows.items()}
    opened = _open(model)
    with _blamed(file, {id_: line for id_, (line, _) in rows.items()}):
        changed = opened.rename_labels(wanted, re_encode=re_encode, who=by, note=note)
    _save(model, changed, as_json)


@app.command()
def merge(
    model: Folder,
    labels: Labels = None,
    into: Annotated[
        str, typer.Option("--into", help="Id or name of the label that gets their scores.", callback=as_text)
    ] = "",
    file: File = None,
    by: By = "",
    note: Note = "",
    as_json: AsJson = False,
) -> None:
    """Merge labels into another, which gets their highest score, and retire them (--file: with `id`, `into`)."""
    if (file is None) == (not into):
        raise ConfigError(
            "labels merge: give --into LABEL, or give --file with 'id' and 'into'. One of them is needed."
        )
    if file is None:
        rows = {id_: (0, {"into": into}) for id_ in _named(labels, None)}
    else:
        rows = fields_of(file, ("into",), needed=True)
    opened, pairs = _open(model), {id_: fields["into"] for id_, (_, fields) in rows.items()}
    with _blamed(file, {key: line for id_, (line, fields) in rows.items() for key in (id_, str(fields["into"]))}):
        changed = opened.merge_labels(pairs, who=by, note=note)
    _save(model, changed, as_json)


@app.command()
def undo(model: Folder, by: By = "", note: Note = "", as_json: AsJson = False) -> None:
    """Undo the last change; labels it added stay known, as retired."""
    _save(model, _open(model).undo_labels(who=by, note=note), as_json)


@app.command("list")
def list_(
    model: Folder,
    status: Annotated[Status, typer.Option("--status", help="Only labels with this status.")] = "all",
    find: Annotated[
        str, typer.Option("--find", help="Only labels whose id or name contains this.", callback=as_text)
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Print every label: id, name, status, training texts; tab-separated, or as JSON lines."""
    opened = _open(model)
    if not as_json:
        sys.stdout.write("id\tname\tstatus\ttexts\n")
    for row in _rows(opened, status, find.casefold()):
        if as_json:
            sys.stdout.write(json_line(row) + "\n")
            continue
        state = f"merged into {row['into']}" if row["into"] else row["status"] + (", added" if row["added"] else "")
        cells = (row["id"], row["name"], state, str(row["texts"]))
        sys.stdout.write("\t".join(map(_plain, cells)) + "\n")
    sys.stdout.flush()


@app.command()
def log(model: Folder, as_json: AsJson = False) -> None:
    """Print the changes to a model's labels: number, when, who, what."""
    opened = _open(model)
    for number, edit in enumerate(opened.edits.log if opened.edits is not None else (), 1):
        entry = {"number": number, **{key: value for key, value in edit.entry.items() if key != "files"}}
        echo(json_line(entry) if as_json else _line(entry))


def _open(folder: Path) -> Model:
    from treetop.model import load

    return load(folder)


def _save(folder: Path, model: Model, as_json: bool) -> None:
    """Write the change and report it."""
    edits = model.save(folder).edits
    if edits is None:
        raise ConfigError(f"{folder}: nothing was changed.")
    entry = {"number": len(edits.log), **{k: v for k, v in edits.log[-1].entry.items() if k != "files"}}
    if as_json:
        confirm(json_line(entry))
        return
    count, action = entry["labels"], DONE[entry["action"]]
    confirm(f"{folder}: {count:,} label{'s' if count != 1 else ''} {action} (change {entry['number']})")


def _line(entry: dict[str, Any]) -> str:
    ids = ", ".join(map(_plain, entry["ids"])) + (", ..." if entry["labels"] > len(entry["ids"]) else "")
    what = f"undo {entry['undoes']}" if "undoes" in entry else entry["action"]
    note = f"  # {_plain(entry['note'])}" if entry["note"] else ""
    return f"{entry['number']}  {entry['when']}  {_plain(entry['who'])}  {what}  {entry['labels']:,}: {ids}{note}"


def _plain(text: str) -> str:
    """Text on one line, without terminal control sequences."""
    return visible(" ".join(text.split()))


def _rows(model: Model, status: Status, find: str) -> Iterator[dict[str, Any]]:
    from treetop.core.dataset import RETIRED

    labels, merged = model.labels, model.edits.merged if model.edits is not None else {}
    rows = zip(labels.ids, labels.names, labels.texts, labels.status.tolist(), model.counts.tolist(), strict=True)
    for column, (id_, name, text, state, count) in enumerate(rows):
        word, added = "retired" if state == RETIRED else "active", column >= model.n_trained
        if (status != "all" and status not in (word, "added" if added else word)) or (
            find and find not in id_.casefold() and find not in name.casefold()
        ):
            continue
        into = labels.ids[merged[column]] if column in merged else None
        yield {"id": id_, "name": name, "text": text, "status": word, "added": added, "texts": count, "into": into}


@contextlib.contextmanager
def _blamed(file: Path | None, lines: Mapping[str, int]) -> Iterator[None]:
    """Add the line of the file to the error of a refused label, if labels came from a file."""
    try:
        yield
    except LabelError as error:
        if file is None:
            raise
        raise DataError(str(error), file=file, line=lines.get(error.label or "")) from None


def _named(labels: list[str] | None, file: Path | None) -> dict[str, int]:
    """{label: its line} of labels given as arguments or in a file, not both."""
    if bool(labels) == (file is not None):
        raise ConfigError("labels: name them by id or name, or give --file. One of the two is needed.")
    if file is not None:
        return {id_: line for id_, (line, _) in fields_of(file, ()).items()}
    named = dict.fromkeys(labels or [], 0)
    if len(named) < len(labels or []):
        twice = next(label for i, label in enumerate(labels or []) if label in (labels or [])[:i])
        raise LabelError(f"label '{twice}': appears twice. Name each label once.")
    return named
