"""A folder opened once: even if it is replaced later, its files are those of the folder that was opened.

Only plain files are opened: never a link, a pipe or a device, and never a file outside the folder.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

from treetop.core.errors import ModelError
from treetop.core.steady import file_state, state_of

MANIFEST = "manifest.json"
LARGEST = 64 << 20  # bytes of a file that is read at once
DEEPEST = 32  # folders inside one another
DESCRIPTORS = {os.open, os.stat, os.rename} <= os.supports_dir_fd  # not on Windows
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_FILE = os.O_RDONLY | _NO_LINK | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0)
_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}


class Folder:
    """A folder held by a descriptor, or by its path where the system has none for folders (Windows)."""

    def __init__(self, path: Path, descriptor: int | None) -> None:
        self.path, self.descriptor = path, descriptor
        self._way: list[tuple[str, int | None]] = []
        self._before = self._state() if descriptor is None else (state_of(os.fstat(descriptor)), None)

    @property
    def pinned(self) -> bool:
        """Whether its files are guaranteed to be those of one folder."""
        return self.descriptor is not None

    def replaced(self) -> bool:
        """Whether another folder, or none, is at its path now."""
        return self._state() != self._before

    def _state(self) -> tuple[object, ...]:
        """While the descriptor is open, its inode number is not reused; otherwise another folder may get it."""
        return file_state(self.path), None if self.pinned else file_state(self.path / MANIFEST)

    def open(self, name: str) -> BufferedReader:
        """A plain file, its path relative to the folder."""
        check_name(self.path, name)
        *folders, last = name.split("/")
        place = f"{self.path}/{name}"
        with _told(place):
            return _open_file(place, last, self._descend(folders))

    def _descend(self, folders: list[str]) -> int | None:
        """The descriptor of a folder inside; those on the way stay open for files that follow."""
        common = 0
        while common < len(folders) and [name for name, _ in self._way[: common + 1]] == folders[: common + 1]:
            common += 1
        self._leave(common)
        for depth in range(common, len(folders)):
            place = "/".join([str(self.path), *folders[: depth + 1]])
            self._way.append((folders[depth], _open_inside(place, folders[depth], self._deepest())))
        return self._deepest()

    def _deepest(self) -> int | None:
        return self._way[-1][1] if self._way else self.descriptor

    def _leave(self, depth: int) -> None:
        for _, descriptor in self._way[depth:]:
            if descriptor is not None:
                os.close(descriptor)
        del self._way[depth:]

    def close(self) -> None:
        """Close the folder; files opened in it stay open."""
        self._leave(0)
        if self.descriptor is not None:
            os.close(self.descriptor)

    def read(self, name: str, most: int = LARGEST) -> bytes:
        """The bytes of a plain file."""
        with self.open(name) as source:
            return _bytes(self.path / name, source, most)

    @contextlib.contextmanager
    def inside(self, name: str) -> Iterator[Folder | None]:
        """A folder inside this one; None where nothing has this name."""
        path = self.path / name
        try:
            descriptor = _open_inside(str(path), name, self.descriptor)
        except FileNotFoundError:
            yield None
            return
        except OSError:
            raise ModelError(f"{path}: a file or a link, expected a folder. Copy the model again.") from None
        with contextlib.closing(Folder(path, descriptor)) as folder:
            yield folder

    def rename(self, old: str, new: str) -> None:
        """Give a file or folder directly in this one another name, in place of a file that had it."""
        if self.descriptor is None:
            (self.path / old).replace(self.path / new)
        else:
            os.replace(old, new, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)


@contextlib.contextmanager
def open_folder(path: Path) -> Iterator[Folder]:
    """A folder to read from; it may itself be reached by a link."""
    try:
        if not path.is_dir():
            raise NotADirectoryError
        descriptor = os.open(path, _FOLDER) if DESCRIPTORS else None
    except PermissionError as error:
        raise ModelError(f"{path}: cannot be opened ({error.strerror}). Change the folder's permissions.") from None
    except (OSError, ValueError):  # ValueError: no path at all
        raise ModelError(f"{path}: no such model folder. Give the folder that `treetop fit --out` wrote.") from None
    with contextlib.closing(Folder(path, descriptor)) as folder:
        yield folder


def read_plain(file: Path) -> bytes:
    """The bytes of a plain file that must not be large."""
    with _told(str(file)), _open_file(str(file), file.name, None) as source:
        return _bytes(file, source, LARGEST)


def check_name(folder: Path, name: str) -> None:
    """Refuse a path that is not relative or leads out of the folder."""
    parts = name.split("/")
    strange = any(part in {"", ".", ".."} for part in parts) or any(sign in name for sign in "\\:\0")
    if strange or len(parts) > DEEPEST or not _encodable(name):
        raise ModelError(
            f"{folder}: its list of files names {name!r:.200}, which is outside the folder or not a file name. "
            "Copy the model again."
        )


def _encodable(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _open_file(path: str, name: str, at: int | None) -> BufferedReader:
    """A plain file by its name in the folder `at`, or by its path where folders have no descriptors."""
    if at is None:
        _refuse_link(path)
    descriptor = os.open(path if at is None else name, _FILE, dir_fd=at)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise ModelError(f"{path}: not a plain file. A model holds plain files only; copy it again.")


def _open_inside(path: str, name: str, at: int | None) -> int | None:
    """A folder by its name in the folder `at`; where folders have no descriptors it is only checked."""
    if at is not None:
        return os.open(name, _FOLDER | _NO_LINK, dir_fd=at)
    if not stat.S_ISDIR(_refuse_link(path).st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    return None


def _refuse_link(path: str) -> os.stat_result:
    found = os.lstat(path)
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return found


def _bytes(file: Path, source: BufferedReader, most: int) -> bytes:
    size = os.fstat(source.fileno()).st_size
    if size > most:
        raise ModelError(f"{file}: {size:,} bytes, at most {most:,} are allowed.")
    return source.read(size)


@contextlib.contextmanager
def _told(file: str) -> Iterator[None]:
    """The error for a file that could not be opened or read."""
    try:
        yield
    except (OSError, ValueError) as error:
        if isinstance(error, ModelError):
            raise
        if not isinstance(error, OSError) or error.errno in _ABSENT:
            raise ModelError(f"{file}: missing (or a link). The model is incomplete; copy it again.") from None
        raise ModelError(f"{file}: cannot be read ({error.strerror}).") from None
