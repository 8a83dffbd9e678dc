"""Changes to a model's labels after training, stored beside what training wrote, which stays as it is byte for byte.

    edits/log.json   what was changed, when and by whom; size and sha256 of the files below; the model it belongs to
    edits/0001/      the data of the first change, written once and never touched again

A change counts from the moment a log that names it takes the place of the old one, which is one rename: a kill at any
time leaves the old or the new model. What a killed change left behind is not in the log; the next change removes it.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from treetop.core.errors import ModelError, ResourceError, WorkError
from treetop.core.sealed import Check, seal, unseal
from treetop.core.store import Part, check_file, files_below, read_part, sha256, write_part
from treetop.core.target import alone, confirm, sync

FOLDER, LOG, LOCK = "edits", "log.json", ".lock"
FORMAT = 1
MOST = 99_999  # changes one model may carry


@dataclass(frozen=True, eq=False)
class Edit:
    """One change: what the log says of it (action, when, who, note, labels, first ids, files), and its data."""

    entry: Mapping[str, Any]
    part: Part

    @property
    def action(self) -> str:
        return str(self.entry["action"])


def read_edits(folder: Path, model: str, *, check: Check = "quick") -> tuple[Edit, ...]:
    """The changes to the model in `folder` (`model`: the hash in its manifest), after the checks of `check_folder`."""
    home = folder / FOLDER
    if not home.is_dir() or home.is_symlink():
        if home.exists() or home.is_symlink():
            raise ModelError(f"{home}: a file or a link, expected a folder of label changes. Copy the model again.")
        return ()
    if not (home / LOG).is_file():
        if any(_number(item.name) for item in home.iterdir()):
            raise ModelError(f"{home / LOG}: missing, but changes to labels lie beside it. Copy the model again.")
        return ()
    entries = _entries(home, model)
    for number, entry in enumerate(entries, 1):
        for name, facts in entry["files"].items():
            if not name.startswith(f"{number:04d}/"):
                raise ModelError(f"{home / LOG}: change {number} names the file '{name}', which is not its own.")
            check_file(home, name, facts, check)
    if check == "full":
        _check_rest(home, entries)
    return tuple(Edit(entry, read_part(home / f"{number:04d}")) for number, entry in enumerate(entries, 1))


def _entries(home: Path, model: str) -> list[dict[str, Any]]:
    log = unseal(home / LOG)
    if log.get("format") != FORMAT:
        raise ModelError(
            f"{home / LOG}: format {log.get('format')!r}, this treetop reads {FORMAT}. Install one that fits."
        )
    if log.get("model") != model:
        raise ModelError(
            f"{home / LOG}: belongs to another model. Copy the whole model folder again, or remove edits/."
        )
    entries = log.get("edits")
    if not isinstance(entries, list) or len(entries) > MOST or not all(_sound(entry) for entry in entries):
        raise ModelError(f"{home / LOG}: the list of changes is malformed. Copy the model again.")
    return entries


def _sound(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and all(isinstance(entry.get(key), str) for key in ("action", "when", "who", "note"))
        and type(entry.get("labels")) is int
        and isinstance(entry.get("files"), dict)
        and all(isinstance(name, str) for name in entry["files"])
    )


def _check_rest(home: Path, entries: Sequence[Mapping[str, Any]]) -> None:
    """Refuse files the log does not know, but for what a killed change may leave."""
    listed = {name for entry in entries for name in entry["files"]}
    for name in files_below(home):
        top = name.split("/")[0]
        left_behind = top.startswith(".") or _number(top) > len(entries)
        if name not in listed and name != LOG and not left_behind:
            raise ModelError(f"{home / name}: is not in the log of changes. Remove it or copy the model again.")


def _number(name: str) -> int:
    """The number of a change's folder; 0 for any other name."""
    return int(name) if name.isascii() and name.isdecimal() and len(name) >= 4 else 0


def write_edits(folder: Path, model: str, edits: Sequence[Edit]) -> tuple[Edit, ...]:
    """Store those of `edits` that the folder does not have yet and return all as stored; all or nothing.

    The folder's own changes must be the first of `edits`, or else somebody changed the model meanwhile.
    """
    made = _write(folder, model, edits)
    confirm(folder / FOLDER, f"{folder / FOLDER}: the change is written")
    return made


def _write(folder: Path, model: str, edits: Sequence[Edit]) -> tuple[Edit, ...]:
    home = folder / FOLDER
    try:
        home.mkdir(exist_ok=True)
        with alone(home / LOCK, f"{home}: another process is changing this model. Give the command again."):
            if not (home / LOG).is_file():
                _put_log(home, model, [])
            stored = _entries(home, model)
            if stored != [edit.entry for edit in edits[: len(stored)]]:
                raise WorkError(f"{folder}: its labels were changed by another process meanwhile. Load it again.")
            _sweep(home, len(stored))
            made = [
                edit
                if number <= len(stored)
                else replace(edit, entry={**edit.entry, "files": _put(home, number, edit)})
                for number, edit in enumerate(edits, 1)
            ]
            _put_log(home, model, [dict(edit.entry) for edit in made])
    except OSError as error:
        raise ResourceError(
            f"{home}: could not be written ({error.strerror}); the model is as it was. Check its rights and the space "
            "left there."
        ) from error
    return tuple(made)


def write_anew(folder: Path, model: str, edits: Sequence[Edit]) -> tuple[Edit, ...]:
    """Store `edits` in the folder of a model just written, wherever they lay before."""
    return _write(folder, model, [replace(e, entry={k: v for k, v in e.entry.items() if k != "files"}) for e in edits])


def _put(home: Path, number: int, edit: Edit) -> dict[str, Any]:
    """Write a change's data under its number; returns size and sha256 of its files."""
    name = f"{number:04d}"
    fresh = Path(tempfile.mkdtemp(prefix=f".{name}.", suffix=".tmp", dir=home))
    try:
        fresh.chmod(0o755)
        write_part(fresh, edit.part)
        facts = {}
        for file in files_below(fresh):
            sync(fresh / file)
            facts[f"{name}/{file}"] = {"size": (fresh / file).stat().st_size, "sha256": sha256(fresh / file)}
        sync(fresh)
        fresh.rename(home / name)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return facts


def _put_log(home: Path, model: str, entries: Sequence[Mapping[str, Any]]) -> None:
    fresh = home / f".{LOG}.tmp"
    try:
        fresh.write_bytes(seal({"format": FORMAT, "model": model, "edits": list(entries)}))
        sync(fresh)
        sync(home)  # the folders it names are there before it is
        fresh.replace(home / LOG)
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)


def _sweep(home: Path, stored: int) -> None:
    """Remove what a killed change left."""
    for item in home.iterdir():
        if (item.name.endswith(".tmp") and item.name.startswith(".")) or _number(item.name) > stored:
            shutil.rmtree(item) if item.is_dir() else item.unlink()
