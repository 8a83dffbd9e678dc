"""Changes to a model's labels after training, stored next to the trained files, which stay unchanged byte for byte.

    edits/log.json   what was changed, when and by whom; size and sha256 of the files below; the model it belongs to
    edits/0001/      the data of the first change, written once and never touched again

A change counts from the moment a log that names it takes the place of the old one, which is one rename: a kill at any
time leaves the old or the new model. What a killed change left behind is not in the log; the next change removes it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from treetop.core.errors import ModelError, ResourceError, WorkError
from treetop.core.folder import MANIFEST, Folder, open_folder
from treetop.core.leftovers import temporary
from treetop.core.listed import Listed
from treetop.core.sealed import Check, seal, unsealed
from treetop.core.store import Part, files_below, part_of, sha256, write_part
from treetop.core.target import confirm, exclusive_lock, fresh_folder, sync

FOLDER, LOG, LOCK = "edits", "log.json", ".lock"
FORMAT = 1
MOST = 99_999  # changes one model may carry
ACTIONS = {"add", "learn", "retire", "restore", "rename", "merge", "undo"}


@dataclass(frozen=True, eq=False)
class Edit:
    """One change: its log entry (action, when, who, note, labels, first ids, files), and its data."""

    entry: Mapping[str, Any]
    part: Part

    @property
    def action(self) -> str:
        return str(self.entry["action"])


def read_edits(folder: Folder, model: str, *, check: Check = "quick") -> tuple[Edit, ...]:
    """The changes to the model in `folder` (`model`: the hash in its manifest), after the checks of `check_folder`."""
    with folder.inside(FOLDER) as home:
        if home is None or not _has_log(home):
            if folder.replaced():  # what was replaced is being removed: changes may have been there
                raise ModelError(f"{folder.path}: replaced while it was read. Load it again.")
            return ()
        entries = _entries(home, model)
        for number, entry in enumerate(entries, 1):
            if foreign := [name for name in entry["files"] if not name.startswith(f"{number:04d}/")]:
                place = home.path / LOG
                raise ModelError(
                    f"{place}: change {number} names the file {foreign[0]!r:.200}, which belongs to another change."
                )
        listed = Listed(home, {name: facts for entry in entries for name, facts in entry["files"].items()}, check)
        if check == "full":
            _check_rest(home.path, listed, len(entries))
        return tuple(Edit(entry, part_of(listed, f"{number:04d}/")) for number, entry in enumerate(entries, 1))


def _has_log(home: Folder) -> bool:
    """Whether there is a log; changes without one are refused, unless it appeared in the meantime."""
    log = home.path / LOG
    if os.path.lexists(log):
        return True
    changes = any(_number(item.name) for item in home.path.iterdir())
    if changes and not os.path.lexists(log):
        raise ModelError(f"{log}: missing, but there are label changes next to it. Copy the model again.")
    return changes


def _entries(home: Folder, model: str) -> list[dict[str, Any]]:
    file = home.path / LOG
    log = unsealed(home.read(LOG), file)
    if log.get("format") != FORMAT:
        raise ModelError(
            f"{file}: format {log.get('format')!r}, this treetop reads {FORMAT}. Install a version that fits."
        )
    if log.get("model") != model:
        raise ModelError(f"{file}: belongs to another model. Copy the whole model folder again, or remove edits/.")
    entries = log.get("edits")
    if not isinstance(entries, list) or len(entries) > MOST or not all(_sound(entry) for entry in entries):
        raise ModelError(f"{file}: the list of changes is malformed. Copy the model again.")
    return entries


def _sound(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and all(isinstance(entry.get(key), str) for key in ("action", "when", "who", "note"))
        and entry["action"] in ACTIONS
        and type(entry.get("labels")) is int
        and isinstance(entry.get("ids"), list)
        and all(isinstance(id_, str) for id_ in entry["ids"])
        and isinstance(entry.get("files"), dict)
    )


def _check_rest(home: Path, listed: Listed, changes: int) -> None:
    """Refuse files that are not in the log, except leftovers of a killed change."""
    for name in files_below(home):
        top = name.split("/")[0]
        left_behind = top.startswith(".") or _number(top) > changes
        if name not in listed and name != LOG and not left_behind:
            raise ModelError(f"{home / name}: is not in the log of changes. Remove it or copy the model again.")


def _number(name: str) -> int:
    """The number of a change's folder; 0 for any other name."""
    return int(name) if name.isascii() and name.isdecimal() and len(name) >= 4 else 0


def write_edits(folder: Path, model: str, edits: Sequence[Edit]) -> tuple[Edit, ...]:
    """Store those of `edits` that the folder does not have yet and return all as stored; all or nothing.

    The folder's own changes must be the first of `edits`, or another process has changed the model.
    """
    written = _write(folder, model, edits)
    confirm(folder / FOLDER, f"{folder / FOLDER}: the change is written")
    return written


def _write(folder: Path, model: str, edits: Sequence[Edit]) -> tuple[Edit, ...]:
    home = folder / FOLDER
    busy = f"{home}: another process is changing this model. Run the command again."
    replaced = WorkError(
        f"{folder}: it was replaced by another model in the meantime; the change is not saved. Load it again."
    )
    with open_folder(folder) as opened:
        try:
            if _seal_of(opened) != model:
                raise replaced
            home.mkdir(exist_ok=True)
            with exclusive_lock(home / LOCK, busy), opened.inside(FOLDER) as inside:
                if inside is None:
                    raise replaced
                stored = _append(inside, folder, model, edits)
        except OSError as error:
            if opened.replaced():
                raise replaced from error
            raise ResourceError(
                f"{home}: could not be written ({error.strerror}); the model is as it was. Check its rights and the "
                "space left there."
            ) from error
        if opened.replaced():
            raise replaced
    return stored


def _seal_of(folder: Folder) -> str:
    return str(unsealed(folder.read(MANIFEST), folder.path / MANIFEST)["sha256"])


def _append(home: Folder, folder: Path, model: str, edits: Sequence[Edit]) -> tuple[Edit, ...]:
    if not _has_log(home):
        _put_log(home, model, [])
    stored = _entries(home, model)
    known = enumerate(zip(edits, stored, strict=False), 1)
    if len(stored) > len(edits) or not all(_same(home, number, edit, entry) for number, (edit, entry) in known):
        raise WorkError(f"{folder}: its labels were changed by another process in the meantime. Load it again.")
    _sweep(home.path, len(stored))
    appended = [
        replace(edit, entry=stored[at] if at < len(stored) else {**edit.entry, "files": _put(home, at + 1, edit)})
        for at, edit in enumerate(edits)
    ]
    _put_log(home, model, [dict(edit.entry) for edit in appended])
    return tuple(appended)


def _same(home: Folder, number: int, edit: Edit, stored: Mapping[str, Any]) -> bool:
    """Whether a change is the stored one; of one that was never read from a folder the data are compared, too."""
    if "files" in edit.entry:
        return dict(edit.entry) == dict(stored)
    if {**edit.entry, "files": stored["files"]} != stored:
        return False
    with _written(home, number, edit) as (_, files):
        return files == dict(stored["files"])


def rewrite_edits(folder: Path, model: str, edits: Sequence[Edit]) -> tuple[Edit, ...]:
    """Store `edits` in the folder of a newly written model, wherever they were stored before."""
    return _write(folder, model, [replace(e, entry={k: v for k, v in e.entry.items() if k != "files"}) for e in edits])


def _put(home: Folder, number: int, edit: Edit) -> dict[str, Any]:
    """Write a change's data under its number; returns size and sha256 of its files."""
    with _written(home, number, edit) as (fresh, files):
        for file in files_below(fresh):
            sync(fresh / file)
        sync(fresh)
        home.rename(fresh.name, f"{number:04d}")
    return files


@contextlib.contextmanager
def _written(home: Folder, number: int, edit: Edit) -> Iterator[tuple[Path, dict[str, Any]]]:
    """A temporary folder with a change's data, and size and sha256 of its files as the log will name them."""
    fresh = fresh_folder(home.path, f".{number:04d}.", ".tmp")
    try:
        with temporary(fresh):
            write_part(fresh, edit.part)
            yield (
                fresh,
                {
                    f"{number:04d}/{file}": {"size": (fresh / file).stat().st_size, "sha256": sha256(fresh / file)}
                    for file in files_below(fresh)
                },
            )
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _put_log(home: Folder, model: str, entries: Sequence[Mapping[str, Any]]) -> None:
    fresh = home.path / f".{LOG}.tmp"
    try:
        fresh.write_bytes(seal({"format": FORMAT, "model": model, "edits": list(entries)}))
        sync(fresh)
        sync(home.path)  # the folders it names are there before it is
        home.rename(fresh.name, LOG)
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)


def _sweep(home: Path, stored: int) -> None:
    """Remove leftovers of a killed change."""
    for item in home.iterdir():
        if (item.name.endswith(".tmp") and item.name.startswith(".")) or _number(item.name) > stored:
            shutil.rmtree(item) if item.is_dir() else item.unlink()
