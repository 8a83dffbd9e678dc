"""Many strings as one UTF-8 blob and offsets: compact, memory-mapped when large, read directly by the kernels."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import overload

import numpy as np
from numpy.typing import NDArray

from treetop.core import spill
from treetop.core.errors import InputError

BLOCK = 1 << 22  # bytes of text that a builder moves at once


def readable(name: str) -> str:
    r"""The name of a file as text that can be stored: bytes that are not UTF-8 are escaped.

    >>> readable("caf\udcc3\udca9 \udcff")
    'café \\xff'
    """
    return name.encode(errors="surrogateescape").decode(errors="backslashreplace")


def folded(label: str) -> str:
    """A label without case and superfluous spaces.

    >>> folded(" Guinea  Pigs")
    'guinea pigs'
    """
    return " ".join(label.split()).casefold()


def refuse_table(given: object) -> None:
    """Refuse a data frame where texts are expected: going through it gives the names of its columns."""
    columns = getattr(given, "columns", None)
    if columns is not None:
        names = [str(column) for column in columns]
        shown = ", ".join(f"'{name}'" for name in names[:5])
        raise InputError(
            f"texts: expected a list of strings, got a table with the columns {shown}. Give the column that holds the "
            f"texts, for example table['{names[0] if names else 'text'}']."
        )


class Texts(Sequence[str]):
    """A read-only sequence of strings.

    >>> texts = Texts.of(["a cat", ""])
    >>> len(texts), texts[0], texts.take([1, 0])[1]
    (2, 'a cat', 'a cat')
    """

    __slots__ = ("blob", "offsets")

    def __init__(self, blob: NDArray[np.uint8], offsets: NDArray[np.int64]) -> None:
        if offsets.ndim != 1 or len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != len(blob):
            raise InputError(f"texts: offsets must run from 0 to the blob's {len(blob)} bytes.")
        self.blob = blob
        self.offsets = offsets

    @classmethod
    def of(cls, strings: Iterable[str]) -> Texts:
        """Pack strings; a lone surrogate (half of a broken pair) becomes U+FFFD, anything but str is refused."""
        if isinstance(strings, Texts):
            return strings
        refuse_table(strings)
        builder = TextsBuilder()
        for string in strings:
            builder.add(string)
        return builder.build()

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Texts: ...
    def __getitem__(self, index: int | slice) -> str | Texts:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            return self.span(start, max(start, stop)) if step == 1 else self.take(np.arange(start, stop, step))
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"text {index} of {len(self)}")
        start, stop = self.offsets.item(place), self.offsets.item(place + 1)
        return self.blob[start:stop].tobytes().decode("utf-8", errors="replace")

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), 4096):
            stop = min(start + 4096, len(self))
            base = int(self.offsets[start])
            chunk = self.blob[base : self.offsets[stop]].tobytes()
            ends = (self.offsets[start : stop + 1] - base).tolist()
            for a, b in pairwise(ends):
                yield chunk[a:b].decode("utf-8", errors="replace")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Texts):
            return NotImplemented
        return np.array_equal(self.offsets, other.offsets) and np.array_equal(self.blob, other.blob)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Texts({len(self):,} strings, {len(self.blob):,} bytes)"

    def span(self, start: int, stop: int) -> Texts:
        """Consecutive texts, without copying their bytes."""
        if start == 0 and stop == len(self):
            return self
        base = self.offsets[start]
        return Texts(self.blob[base : self.offsets[stop]], self.offsets[start : stop + 1] - base)

    def take(self, rows: NDArray[np.integer] | Sequence[int]) -> Texts:
        """Copies of the texts at `rows`, in that order."""
        places = np.asarray(rows, dtype=np.int64)
        starts, lengths = self.offsets[places], self.lengths()[places]
        offsets = np.zeros(len(places) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        blob = spill.empty(int(offsets[-1]), np.uint8)
        for a, n, b in zip(starts.tolist(), lengths.tolist(), offsets.tolist(), strict=False):
            blob[b : b + n] = self.blob[a : a + n]
        return Texts(blob, offsets)

    def lengths(self) -> NDArray[np.int64]:
        """Bytes of each text."""
        return np.diff(self.offsets)

    @staticmethod
    def concat(parts: Sequence[Texts]) -> Texts:
        """All texts of `parts` one after the other."""
        blob = np.concatenate([part.blob for part in parts]) if parts else np.zeros(0, np.uint8)
        lengths = np.concatenate([part.lengths() for part in parts]) if parts else np.zeros(0, np.int64)
        return Texts(blob, np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]))


class TextsBuilder:
    """Collects strings in one growing byte array: memory stays close to the size of the text, or below (`spill.py`)."""

    def __init__(self) -> None:
        self._blob = bytearray()
        self._offsets = array("q", [0])
        self._before: spill.Growing | None = None  # what is no longer in the byte array

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def add(self, string: str) -> None:
        if not isinstance(string, str):
            raise InputError(
                f"text {len(self)}: expected a string, got {type(string).__name__}. Pass a list of strings; "
                "replace missing values (None, NaN) by '' first."
            )
        try:
            self._blob += string.encode()
        except UnicodeEncodeError:
            self._blob += string.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
        self._offsets.append(len(self._blob) + (0 if self._before is None else len(self._before)))
        if len(self._blob) >= BLOCK and spill.spills(len(self._blob)):
            self._move()

    def _move(self) -> None:
        if self._before is None:
            self._before = spill.Growing(np.uint8)
        self._before.append(np.frombuffer(self._blob, np.uint8))
        self._blob = bytearray()

    def build(self) -> Texts:
        """The strings so far."""
        if self._before is not None:
            self._move()
        blob = np.frombuffer(self._blob, np.uint8) if self._before is None else self._before.array()
        return Texts(blob, np.array(self._offsets, dtype=np.int64))
