"""Consistent reading of files that another process may replace: read, compare, and read again if they changed."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, TypeVar

from treetop.core.errors import TreetopError

TRIES = 20


class Watched(Protocol):
    """Something opened for reading."""

    @property
    def pinned(self) -> bool:
        """Whether all that is read through it belongs together even after something else has taken its place."""

    def replaced(self) -> bool:
        """Whether it has been replaced."""


T = TypeVar("T")
W = TypeVar("W", bound=Watched)


def read_steadily(
    opened: Callable[[], AbstractContextManager[W]], read: Callable[[W], T], unsteady: TreetopError, tries: int = TRIES
) -> T:
    """The result of `read` on one state of the files; if replaced, they are read again, up to `tries` times."""
    for _ in range(tries):
        with opened() as watched:
            try:
                result = read(watched)
            except Exception:
                if not watched.replaced():
                    raise
            else:
                if watched.pinned or not watched.replaced():
                    return result
    raise unsteady


class FileStates:
    """Identity, size and time of a file, or of the files with certain endings in a folder and in some subfolders.

    Files that are hidden or appear later do not count.
    """

    pinned = False

    def __init__(self, path: Path, endings: Collection[str], subfolders: Collection[str] = ()) -> None:
        folders = (path, *(path / name for name in subfolders))
        self._states = {place: file_state(place) for place in (path, *_files(folders, endings))}

    def replaced(self) -> bool:
        """Whether one of them was removed, replaced or written to."""
        return any(file_state(place) != state for place, state in self._states.items())


def _files(folders: Collection[Path], endings: Collection[str]) -> Iterator[Path]:
    for folder in folders:
        with contextlib.suppress(OSError, ValueError), os.scandir(folder) as entries:
            for entry in entries:
                ending = Path(entry.name.lower().removesuffix(".gz")).suffix
                if ending in endings and not entry.name.startswith(".") and entry.is_file():
                    yield Path(entry.path)


def file_state(place: Path) -> tuple[int, ...] | None:
    """`state_of` what is there; None where nothing is."""
    try:
        return state_of(place.stat())
    except (OSError, ValueError):
        return None


def state_of(found: os.stat_result) -> tuple[int, ...]:
    """What identifies a file and its state of writing; for a folder, its identity only."""
    if stat.S_ISREG(found.st_mode):
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
    return found.st_dev, found.st_ino
