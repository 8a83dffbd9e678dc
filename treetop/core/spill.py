"""Arrays that memory has no room for lie in files; the system writes their pages out and reads them when needed.

Inside `spilling(folder, least)` arrays of `least` bytes and more, made by `empty` or `Growing`, are maps of files in
that folder; elsewhere they are plain arrays. Their values are the same either way, and so are models. The files have no
name: a job that is killed leaves nothing behind. Threads that must make such arrays are handed the `Spill` in use.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike, NDArray

from treetop.core.errors import ResourceError
from treetop.core.forecast import nearest, size

FIRST = 1 << 22  # items of a growing array at the start: pages that nobody writes to take no memory
MMAP_THRESHOLD = -3  # of glibc's mallopt
SHARE = 1 / 64  # of a memory budget: arrays of at least that size lie in files


@dataclass(frozen=True)
class Spill:
    """Where arrays of `least` bytes and more lie, and how many bytes have been put there."""

    folder: Path
    least: float
    bytes_written: list[int] = field(default_factory=list)

    def takes(self, n_bytes: int) -> bool:
        """Whether an array of so many bytes lies in a file."""
        return n_bytes >= max(self.least, 1)

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """A new array to be filled, in a file if it is large."""
        kind, lengths = np.dtype(dtype), (shape,) if isinstance(shape, int) else shape
        n_bytes = int(np.prod(lengths, dtype=np.int64)) * kind.itemsize
        if not self.takes(n_bytes):
            return np.empty(lengths, kind)
        with self.file() as file:
            try:
                _reserve(file.fileno(), n_bytes)
            except OSError as error:
                raise self.full(n_bytes, error) from None
            return self.mapped(file, n_bytes, kind).reshape(lengths)

    def file(self) -> BinaryIO:
        """A file without a name."""
        try:
            return tempfile.TemporaryFile(dir=self.folder, buffering=0)  # type: ignore[return-value]
        except OSError as error:
            raise self.full(0, error) from None

    def mapped(self, file: BinaryIO, n_bytes: int, dtype: DTypeLike) -> NDArray[Any]:
        """The content of a file, to be read and written.

        The array is a view of one of its own size: scipy copies what looks like a small part of something larger.
        """
        self.bytes_written.append(n_bytes)
        return np.frombuffer(mmap.mmap(file.fileno(), n_bytes), dtype)[:]

    def full(self, n_bytes: int, error: OSError) -> ResourceError:
        """What to say if the disk has no room for so many bytes."""
        what = f"{size(n_bytes)} of arrays" if n_bytes else "arrays"
        return ResourceError(
            f"{self.folder}: cannot hold {what} that memory has no room for ({error.strerror}). Free disk space, "
            "choose an --out on another disk, or raise --budget memory."
        )


def _return_memory() -> None:
    """From now on memory that is freed goes back to the system at once, a megabyte and more (glibc keeps up to 32)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, 1 << 20)


def _reserve(file: int, n_bytes: int) -> None:
    """Give a file its length and its room on the disk: a full disk is told here, not by a signal later."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, n_bytes)
    else:
        os.truncate(file, n_bytes)


_current: ContextVar[Spill | None] = ContextVar("spill", default=None)


def current() -> Spill | None:
    """Where large arrays lie; None: in memory."""
    return _current.get()


@contextmanager
def spilling(folder: Path, least: float) -> Iterator[Spill]:
    """Inside, arrays of `least` bytes and more lie in files of a folder."""
    spill = Spill(folder, least)
    _return_memory()
    token = _current.set(spill)
    try:
        yield spill
    finally:
        _current.reset(token)


def beside(out: Path | None, memory: float | None) -> AbstractContextManager[object]:
    """Inside, large arrays lie in files in the folder of `out`, large as seen from `memory`; None: all in memory."""
    return nullcontext() if out is None or memory is None else spilling(nearest(out.absolute().parent), SHARE * memory)


def spills(n_bytes: float) -> bool:
    """Whether an array of so many bytes would lie in a file."""
    spill = _current.get()
    return spill is not None and spill.takes(int(n_bytes))


def empty(shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """A new array to be filled."""
    spill = _current.get()
    return np.empty(shape, dtype) if spill is None else spill.empty(shape, dtype)


def copied(array: NDArray[Any]) -> NDArray[Any]:
    """A copy."""
    copy = empty(array.shape, array.dtype)
    copy[...] = array
    return copy


def joined(parts: Sequence[NDArray[Any]], dtype: DTypeLike) -> NDArray[Any]:
    """One-dimensional arrays behind each other."""
    whole, at = empty(sum(len(part) for part in parts), dtype), 0
    for part in parts:
        whole[at : at + len(part)] = part
        at += len(part)
    return whole


class Growing:
    """A one-dimensional array that grows at its end.

    >>> growing = Growing(np.int32)
    >>> growing.append(np.arange(3)), len(growing), growing.array().tolist()
    (0, 3, [0, 1, 2])
    """

    def __init__(self, dtype: DTypeLike) -> None:
        self.dtype, self.n = np.dtype(dtype), 0
        self._spill = _current.get()
        self._file: BinaryIO | None = None
        self._items = np.empty(FIRST, self.dtype)

    def __len__(self) -> int:
        return self.n

    def append(self, more: NDArray[Any]) -> int:
        """Add items; returns the place of the first."""
        at, end = self.n, self.n + len(more)
        if self._file is None and self._spill is not None and self._spill.takes(end * self.dtype.itemsize):
            self._file = self._spill.file()
            self._write(self._items[:at])
            self._items = np.empty(0, self.dtype)
        if self._file is not None:
            self._write(more)
        else:
            if end > len(
                self._items
            ):  # the allocator moves large blocks by renaming their pages: nothing is there twice
                self._items.resize(end + end // 8, refcheck=False)
            self._items[at:end] = more
        self.n = end
        return at

    def _write(self, items: NDArray[Any]) -> None:
        assert self._spill is not None and self._file is not None  # noqa: S101 - only called with both
        left = memoryview(np.ascontiguousarray(items, self.dtype).view(np.uint8))
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            raise self._spill.full(left.nbytes, error) from None

    def array(self) -> NDArray[Any]:
        """All items; nothing can be added any more."""
        if self._file is None:
            self._items.resize(self.n, refcheck=False)
            return self._items
        assert self._spill is not None  # noqa: S101 - files are made by it
        with self._file as file:
            return self._spill.mapped(file, self.n * self.dtype.itemsize, self.dtype)
