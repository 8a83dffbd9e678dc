"""Where something new may be written, and how a folder or file takes its place: made beside it, put there at once."""

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
from treetop.core.store import files_below

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def check_target(target: Path, *, overwrite: bool) -> None:
    """Refuse a place for a model that is taken; `overwrite` replaces a model or an empty folder, never other files."""
    if target.name in {"", ".."}:
        raise WorkError(f"'{target}': no name for a folder. Give one to be made, such as model/.")
    target = without_dots(target)
    check_outside(target)
    if not (target.exists() or target.is_symlink()):
        return
    if not overwrite:
        raise WorkError(
            f"{target}: exists already. Choose another folder, or replace it with --overwrite (overwrite=True)."
        )
    if not target.is_dir() or target.is_symlink() or not ((target / "manifest.json").is_file() or _is_empty(target)):
        raise WorkError(
            f"{target}: is no treetop model, and only models are overwritten. Choose another folder or remove it."
        )


def check_new_file(target: Path, *, overwrite: bool) -> None:
    """Refuse a place for a file that is taken; `overwrite` replaces a plain file, never a folder or a device."""
    target = without_dots(target)
    check_outside(target)
    if not (target.exists() or target.is_symlink()):
        return
    if not target.is_file():
        raise WorkError(f"{target}: exists already and is no plain file. Choose another name.")
    if not overwrite:
        raise WorkError(f"{target}: exists already. Choose another name, or replace it with --overwrite.")


def check_outside(target: Path) -> None:
    """Refuse a place that cannot be written, and one inside a model's folder, which would spoil the model."""
    if found := model_at(target.parent):
        raise WorkError(f"{target}: lies in the model's folder {found}, which may hold nothing else. Choose another.")
    above = next(up for up in without_dots(target).absolute().parents if up.exists() or up.is_symlink())
    if not above.is_dir():
        raise WorkError(f"{target}: cannot be made, as {above} is no folder. Choose another place.")
    if not os.access(above, os.W_OK | os.X_OK):
        raise WorkError(
            f"{target}: nothing may be written in {above}. Change the rights of that folder, or choose another."
        )


def without_dots(target: Path) -> Path:
    """The same place with no `..` on the way, which would lead through folders that need not be there yet."""
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
    """A fresh folder beside `target` that takes its place, synced to disk, when the block ends without an error."""
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
            raise unwritten(target, error) from error
        confirm(target.parent, f"{target}: is in place")


def _put(fresh: Path, target: Path) -> None:
    """Let `fresh` take the place of `target`, or, with an OSError, leave that as it is."""
    if not target.exists():
        fresh.rename(target)
    elif not _exchange(fresh, target):  # in two steps: a kill between them leaves the old one in the folder beside
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
                old.rmdir()  # where the old one came back
            raise
        shutil.rmtree(old, ignore_errors=True)


def _claimed(target: Path, held: contextlib.ExitStack) -> Path:
    """A new folder beside `target`, locked until `held` is closed, so that no other process takes it for left over.

    Then it is removed, or what is in its place: the folder that was replaced.
    """
    while True:
        fresh = fresh_folder(target.parent, f".{target.name}.", ".tmp")
        held.callback(shutil.rmtree, fresh, ignore_errors=True)
        with contextlib.suppress(WorkError, FileNotFoundError):  # taken away before it was locked
            held.enter_context(alone(fresh, "swept"))
            return fresh


def fresh_folder(parent: Path, prefix: str, suffix: str = "") -> Path:
    """A new folder with eight letters between `prefix` and `suffix`, as open to others as the user's umask says."""
    while True:
        folder = parent / f"{prefix}{os.urandom(4).hex()}{suffix}"
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
            return folder


def _sweep(target: Path) -> None:
    """Remove what killed processes left beside `target`."""
    for left in target.parent.glob(f".{glob.escape(target.name)}.{'[a-z0-9_]' * 8}.tmp"):
        with contextlib.suppress(WorkError, OSError), alone(left, "in use") as locked:
            if locked and left.is_dir() and not left.is_symlink():
                shutil.rmtree(left)


@contextlib.contextmanager
def alone(place: Path, refusal: str) -> Iterator[bool]:
    """Hold a file (made where there is none) or a folder that another process may not hold at once; else WorkError.

    The system frees it when a process dies. False: it has no locks (Windows, some network disks), so nothing is held.
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
        with contextlib.suppress(OSError):  # nothing was written to it, and closed it is
            os.close(descriptor)


@contextlib.contextmanager
def replacing_file(target: Path) -> Iterator[TextIO]:
    """A fresh text file beside `target` that takes its place when the block ends without an error."""
    fresh = target.with_name(f".{target.name}.tmp")
    busy = f"{target}: another process is writing it now. Wait until it ends, or choose another name."
    with named(target), alone(fresh, busy):
        try:
            with fresh.open("w", encoding="utf-8", newline="") as file:
                yield file
            fresh.replace(target)
        finally:
            fresh.unlink(missing_ok=True)


@contextlib.contextmanager
def named(target: Path) -> Iterator[None]:
    """Tell of a full disk by what was to be written there; the system itself does not say it."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise unwritten(target, error) from error


def unwritten(target: Path, error: OSError) -> ResourceError:
    """The error of a write that failed and has changed nothing."""
    remedy = (
        "Raise the limit (ulimit -n)" if error.errno == errno.EMFILE else "Free some space, or choose another place"
    )
    return ResourceError(f"{target}: could not be written ({error.strerror}); nothing was replaced. {remedy}.")


def _exchange(one: Path, other: Path) -> bool:
    """Let two folders take each other's place in one step where the system can (Linux)."""
    call = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return call is not None and call(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0


def confirm(folder: Path, done: str) -> None:
    """Wait until what was put into a folder is on the disk; where that fails, say also what is `done` by then."""
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
