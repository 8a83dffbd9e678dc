"""Where output may be written, and how a folder or file is replaced: written next to it, then renamed atomically."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import glob
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from treetop.core.errors import ResourceError, WorkError
from treetop.core.leftovers import temporary
from treetop.core.store import files_below

OURS = ("manifest.json", "adapted.json")  # the files by which a model, and an adapted encoder, are recognised
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def check_target(target: Path, *, overwrite: bool) -> None:
    """Refuse an existing target; `overwrite` replaces a model or an empty folder, never other files."""
    if target.name in {"", ".."}:
        raise WorkError(f"'{target}': not a folder name. Give the name of a new folder, such as model/.")
    target = without_dots(target)
    check_outside(target)
    if not (target.exists() or target.is_symlink()):
        return
    if not overwrite:
        raise WorkError(
            f"{target}: exists already. Choose another folder, or replace it with --overwrite (overwrite=True)."
        )
    ours = any((target / name).is_file() for name in OURS)
    if not target.is_dir() or target.is_symlink() or not (ours or _is_empty(target)):
        raise WorkError(
            f"{target}: is not a treetop model, and only models are overwritten. Choose another folder or remove it."
        )


def check_new_file(target: Path, *, overwrite: bool) -> None:
    """Refuse an existing file; `overwrite` replaces a plain file, never a folder or a device."""
    target = without_dots(target)
    check_outside(target)
    if not (target.exists() or target.is_symlink()):
        return
    if not target.is_file():
        raise WorkError(f"{target}: exists already and is not a plain file. Choose another name.")
    if not overwrite:
        raise WorkError(f"{target}: exists already. Choose another name, or replace it with --overwrite.")


def check_outside(target: Path) -> None:
    """Refuse a target that cannot be written, or one inside a model folder, which would damage the model."""
    if model := model_at(target.parent):
        raise WorkError(
            f"{target}: is inside the model folder {model}, which may contain nothing else. Choose another place."
        )
    above = next(up for up in without_dots(target).absolute().parents if up.exists() or up.is_symlink())
    if not above.is_dir():
        raise WorkError(f"{target}: cannot be created, as {above} is not a folder. Choose another place.")
    if not os.access(above, os.W_OK | os.X_OK):
        raise WorkError(
            f"{target}: no permission to write in {above}. Change its permissions, or choose another folder."
        )


def without_dots(target: Path) -> Path:
    """The same path without `..`, which would lead through folders that may not exist yet."""
    return Path(os.path.realpath(target.parent)) / target.name if ".." in target.parts else target


def model_at(folder: Path) -> Path | None:
    """The model's folder that `folder` is or lies in, links followed; None where there is none."""
    place = Path(os.path.realpath(folder))
    files = ("manifest.json", "part.json")
    return next((up for up in (place, *place.parents) if all(os.access(up / name, os.F_OK) for name in files)), None)


def _is_empty(folder: Path) -> bool:
    return next(folder.iterdir(), None) is None


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A new folder next to `target` that replaces it, synced to disk, when the block ends without an error."""
    with contextlib.ExitStack() as held:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            _sweep(target)
            fresh = _claimed(target, held)
            yield fresh
            for file in [fresh / name for name in files_below(fresh)]:
                sync(file)
            sync(fresh)
            _put(fresh, target)
        except OSError as error:
            raise write_error(target, error) from error
        confirm(target.parent, f"{target}: is in place")


def _put(fresh: Path, target: Path) -> None:
    """Replace `target` by `fresh`; on an OSError `target` is unchanged."""
    if not target.exists():
        fresh.rename(target)
    elif not _exchange(fresh, target):  # in two steps: a kill between them leaves the old one in a folder next to it
        old = fresh_folder(target.parent, f".{target.name}.", ".old")
        try:
            target.rename(old / target.name)
            try:
                fresh.rename(target)
            except OSError:
                (old / target.name).rename(target)
                raise
        except OSError:
            with contextlib.suppress(OSError):
                old.rmdir()  # if the old one was restored
            raise
        shutil.rmtree(old, ignore_errors=True)


def _claimed(target: Path, stack: contextlib.ExitStack) -> Path:
    """A new folder next to `target`, locked until `stack` is closed, so that no other process mistakes it for a
    leftover.

    On closing, it is removed, or the replaced folder that took its name.
    """
    while True:
        fresh = fresh_folder(target.parent, f".{target.name}.", ".tmp")
        stack.enter_context(temporary(fresh))
        stack.callback(shutil.rmtree, fresh, ignore_errors=True)
        with contextlib.suppress(WorkError, FileNotFoundError):  # removed before it was locked
            stack.enter_context(exclusive_lock(fresh, "swept"))
            return fresh


def fresh_folder(parent: Path, prefix: str, suffix: str = "") -> Path:
    """A new folder with eight letters between `prefix` and `suffix`, with the permissions of the user's umask."""
    while True:
        folder = parent / f"{prefix}{os.urandom(4).hex()}{suffix}"
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
            return folder


def _sweep(target: Path) -> None:
    """Remove leftovers of killed processes next to `target`."""
    for left in target.parent.glob(f".{glob.escape(target.name)}.{'[a-z0-9_]' * 8}.tmp"):
        with contextlib.suppress(WorkError, OSError), exclusive_lock(left, "in use") as locked:
            if locked and left.is_dir() and not left.is_symlink():
                shutil.rmtree(left)


@contextlib.contextmanager
def exclusive_lock(place: Path, refusal: str) -> Iterator[bool]:
    """Lock a file (created if missing) or a folder; WorkError if another process holds the lock.

    The system releases it when a process dies. False: locks are not supported here (Windows, some network disks).
    """
    try:
        import fcntl
    except ImportError:
        yield False
        return
    descriptor = os.open(place, os.O_RDONLY if place.is_dir() else os.O_RDWR | os.O_CREAT, 0o666)
    try:
        locked = True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise WorkError(refusal) from None
        except OSError:
            locked = False
        yield locked
    finally:
        with contextlib.suppress(OSError):  # nothing was written, so an error on closing does not matter
            os.close(descriptor)


@contextlib.contextmanager
def replacing_file(target: Path) -> Iterator[TextIO]:
    """A new text file next to `target` that replaces it when the block ends without an error."""
    fresh = target.with_name(f".{target.name}.tmp")
    busy = f"{target}: another process is writing it now. Wait until it ends, or choose another name."
    with full_disk_named(target), exclusive_lock(fresh, busy), temporary(fresh):
        try:
            with fresh.open("w", encoding="utf-8", newline="") as file:
                yield file
            fresh.replace(target)
        finally:
            fresh.unlink(missing_ok=True)


@contextlib.contextmanager
def full_disk_named(target: Path) -> Iterator[None]:
    """Name the target in the error of a full disk, which the system's error does not."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise write_error(target, error) from error


def write_error(target: Path, error: OSError) -> ResourceError:
    """The error of a failed write that changed nothing."""
    remedy = (
        "Raise the limit (ulimit -n)" if error.errno == errno.EMFILE else "Free some space, or choose another place"
    )
    return ResourceError(f"{target}: could not be written ({error.strerror}); nothing was replaced. {remedy}.")


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders atomically where the system can (Linux)."""
    call = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return call is not None and call(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0


def confirm(folder: Path, done: str) -> None:
    """Wait until the entries of a folder are on the disk; the error on failure says what is already `done`."""
    try:
        sync(folder)
    except OSError as error:
        raise ResourceError(
            f"{done}, but the system cannot confirm that it is on the disk ({error.strerror}). Check the disk before "
            "you rely on it."
        ) from error


def sync(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
