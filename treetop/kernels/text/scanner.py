"""Texts to hashed n-grams: a scanner over UTF-8 bytes and a table of characters.

A scan writes a tidy copy of a block of texts in which every gram is one unbroken run of bytes: words in lower case
with one space between them, or characters with white space settled. It is cut into units (words or characters);
`list_grams` then names each gram by its bytes and by a 64-bit hash that is a fold over the hashes of its units.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from treetop.kernels.runtime.compile import kernel, kernel_for

types: Any = numba.types

U8 = types.Array(types.uint8, 1, "C", readonly=True)
U32 = types.Array(types.uint32, 1, "C", readonly=True)
U64 = types.Array(types.uint64, 1, "C", readonly=True)
I32 = types.Array(types.int32, 1, "C", readonly=True)
I64 = types.Array(types.int64, 1, "C", readonly=True)
# Read-only signatures take both kinds of arrays, so that a memory-mapped model compiles nothing of its own.

LOWER = 0x1FFFFF  # bits of the lower-case code point in an entry of the character table
WORD, MARK, SPACE, ODD = 1 << 21, 1 << 22, 1 << 23, 1 << 24
_JOINERS = (0x200C, 0x200D)  # occur inside Persian and Indic words

_SEED = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x00000100000001B3)
_K1 = np.uint64(0xFF51AFD7ED558CCD)
_K2 = np.uint64(0xC4CEB9FE1A85EC53)
_S29, _S32 = np.uint64(29), np.uint64(32)


@functools.cache
def characters() -> NDArray[np.uint32]:
    """For every code point its lower case and whether it is a word character, a mark, white space or odd.

    Odd are those whose lower case depends on their neighbours (final sigma) or is longer than one character.
    """
    table = np.arange(0x110000, dtype="<u4")
    text = table[:0x40000].tobytes().decode("utf-32-le", "surrogatepass")  # no letters and no blanks above
    for start in range(0, len(text), 256):
        part = text[start : start + 256]
        lower = part.lower()
        if len(lower) == len(part):
            table[start : start + 256] = np.frombuffer(lower.encode("utf-32-le", "surrogatepass"), "<u4")
            continue
        for i, character in enumerate(part):
            single = character.lower()
            table[start + i] = ord(single) if len(single) == 1 else ODD | ord(character)
    table[0x3A3] = ODD | 0x3C3
    for pattern, flag in ((r"\w+", WORD), (r"\s+", SPACE)):
        for match in re.finditer(pattern, text):
            table[match.start() : match.end()] |= np.uint32(flag)
    rest = np.flatnonzero(table[:0x20000] & WORD == 0)
    marks = [i for i in rest.tolist() if unicodedata.category(text[i])[0] == "M"]
    table[[*marks, *_JOINERS, *range(0xE0100, 0xE01F0)]] |= np.uint32(MARK)
    table.setflags(write=False)
    return table


@kernel
def _decode(blob: Any, i: int, end: int) -> Any:
    """(code point, bytes) of the character at `i`; (-1, 1) where the bytes are not valid UTF-8."""
    b = np.int64(blob[i])
    if b < 0x80:
        return b, 1
    if b < 0xC2 or b > 0xF4:
        return -1, 1
    size = 2 if b < 0xE0 else (3 if b < 0xF0 else 4)
    if i + size > end:
        return -1, 1
    point = b & (0x7F >> size)
    for k in range(1, size):
        c = np.int64(blob[i + k])
        if c & 0xC0 != 0x80:
            return -1, 1
        point = (point << 6) | (c & 0x3F)
    least = 0x80 if size == 2 else (0x800 if size == 3 else 0x10000)
    if point < least or point > 0x10FFFF or 0xD800 <= point < 0xE000:
        return -1, 1
    return point, size


@kernel
def _encode(buffer: Any, at: int, point: Any) -> int:
    """Write a code point as UTF-8; returns where the next one goes."""
    if point < 0x80:
        buffer[at] = point
        return at + 1
    if point < 0x800:
        buffer[at] = 0xC0 | (point >> 6)
        buffer[at + 1] = 0x80 | (point & 0x3F)
        return at + 2
    if point < 0x10000:
        buffer[at] = 0xE0 | (point >> 12)
        buffer[at + 1] = 0x80 | ((point >> 6) & 0x3F)
        buffer[at + 2] = 0x80 | (point & 0x3F)
        return at + 3
    buffer[at] = 0xF0 | (point >> 18)
    buffer[at + 1] = 0x80 | ((point >> 12) & 0x3F)
    buffer[at + 2] = 0x80 | ((point >> 6) & 0x3F)
    buffer[at + 3] = 0x80 | (point & 0x3F)
    return at + 4


@kernel
def _hash_on(value: np.uint64, buffer: Any, start: int, stop: int) -> np.uint64:
    """The hash of a unit that goes on with some bytes."""
    for i in range(start, stop):
        value = (value ^ np.uint64(buffer[i])) * _PRIME
    return value


@kernel
def fold(state: np.uint64, unit: np.uint64) -> np.uint64:
    """The hash of a gram that goes on with one more unit."""
    state = (state ^ unit) * _K1
    state = (state ^ (state >> _S32)) * _K2
    return state ^ (state >> _S29)


@kernel_for(U8, I64, U32, types.boolean)
def odd_texts(blob: Any, offsets: Any, table: Any, lower: bool) -> NDArray[np.bool_]:
    """Which texts only Python can put in order: wrong UTF-8, or letters whose lower case the table cannot give."""
    n = len(offsets) - 1
    odd = np.zeros(n, np.bool_)
    for d in range(n):
        i, end = offsets[d], offsets[d + 1]
        while i < end:
            if blob[i] < 0x80:
                i += 1
                continue
            point, size = _decode(blob, i, end)
            if point < 0 or (lower and table[point] & ODD):
                odd[d] = True
                break
            i += size
    return odd


@kernel_for(U8, I64, U32, types.int64, types.int64, types.boolean)
def scan_words(blob: Any, offsets: Any, table: Any, inside: int, shortest: int, lower: bool) -> Any:
    """(buffer, starts, hashes, groups, docs) of the words of each text.

    A word begins with a WORD character, goes on with WORD or any of the bits `inside`, and has at least `shortest`
    characters. Unit i lies at starts[i] .. starts[i + 1] - 1, which leaves out the space.
    """
    n, size = len(offsets) - 1, offsets[-1] - offsets[0]
    buffer = np.empty(size + size // 2 + n + 8, np.uint8)  # lower case makes 2 bytes 3 at worst
    starts = np.empty((size + n) // 2 + 2, np.int32)
    hashes = np.empty(len(starts), np.uint64)
    groups = np.zeros(n + 1, np.int64)
    at, k = 0, 0
    for d in range(n):
        i, end = offsets[d], offsets[d + 1]
        first, length, value = at, 0, _SEED
        while i <= end:
            entry: Any = 0
            point: Any = -1  # after the last byte: as if there were a blank
            if i < end and blob[i] < 0x80:
                point = np.int64(blob[i])
                i += 1
                entry = np.int64(table[point])
                if entry & WORD:  # nearly every byte of most texts ends here
                    point = entry & LOWER if lower else point
                    buffer[at] = point
                    value = (value ^ np.uint64(point)) * _PRIME
                    at += 1
                    length += 1
                    continue
            else:
                step = 1
                if i < end:
                    point, step = _decode(blob, i, end)
                i += step
                if point >= 0:
                    entry = np.int64(table[point])
            if entry & WORD or (length > 0 and entry & inside):
                begin = at
                at = _encode(buffer, at, entry & LOWER if lower else point)
                value = _hash_on(value, buffer, begin, at)
                length += 1
            elif length > 0:
                if length >= shortest:
                    starts[k], hashes[k] = first, value
                    k += 1
                    buffer[at] = 32
                    first = at + 1
                at, length, value = first, 0, _SEED
        groups[d + 1] = k
    starts[k] = at
    return buffer[:at], starts[: k + 1], hashes[:k], groups, np.arange(n + 1)


@kernel_for(U8, I64, U32, types.boolean, types.boolean)
def scan_characters(blob: Any, offsets: Any, table: Any, within_words: bool, lower: bool) -> Any:
    """(buffer, starts, hashes, groups, docs) of the characters of each text.

    A group is a run without white space and a blank at either end (`within_words`), or else the whole text with each
    run of two or more white-space characters made one blank. Unit i lies at starts[i] .. starts[i + 1].
    """
    n, size = len(offsets) - 1, offsets[-1] - offsets[0]
    buffer = np.empty(2 * size + size // 2 + n + 8, np.uint8)
    starts = np.empty(2 * size + n + 2, np.int32)
    hashes = np.empty(len(starts), np.uint64)
    groups = np.zeros((size + n) // 2 + n + 2, np.int64)
    docs = np.zeros(n + 1, np.int64)
    at, k, g = 0, 0, 0
    blank = _hash_on(_SEED, np.full(1, 32, np.uint8), 0, 1)
    for d in range(n):
        i, end = offsets[d], offsets[d + 1]
        is_open = False
        while i <= end:
            point: Any = -1  # after the last byte: as if there were a blank
            step = 1
            if i < end:
                point, step = _decode(blob, i, end)
            i += step
            entry = np.int64(table[point]) if point >= 0 else SPACE
            if entry & SPACE == 0:
                if within_words and not is_open:
                    buffer[at], starts[k], hashes[k], is_open = 32, at, blank, True
                    at, k = at + 1, k + 1
                starts[k] = at
                at = _encode(buffer, at, entry & LOWER if lower else point)
                hashes[k] = _hash_on(_SEED, buffer, starts[k], at)
                k += 1
            elif is_open:
                buffer[at], starts[k], hashes[k], is_open = 32, at, blank, False
                at, k, g = at + 1, k + 1, g + 1
                groups[g] = k
            elif not within_words and i <= end:
                run = 1
                while i < end:
                    after, step = _decode(blob, i, end)
                    if after >= 0 and table[after] & SPACE == 0:
                        break
                    i += step
                    run += 1
                starts[k] = at
                at = _encode(buffer, at, 32 if run > 1 or point < 0 else point)
                hashes[k] = _hash_on(_SEED, buffer, starts[k], at)
                k += 1
        if not within_words:
            g += 1
            groups[g] = k
        docs[d + 1] = g
    starts[k] = at
    return buffer[:at], starts[: k + 1], hashes[:k], groups[: g + 1], docs


@kernel_for(I32, U64, I64, I64, types.UniTuple(types.int64, 4))
def list_grams(starts: Any, hashes: Any, groups: Any, docs: Any, shape: tuple[int, int, int, int]) -> Any:
    """(hash, start, stop, rows): every gram of every text in the order of the text; rows = pointers per text.

    `shape` = (fewest units, most units, bytes between units, 1 if a group that is too short counts once as a whole).
    """
    low, high, gap, whole = shape
    total = 0
    for g in range(len(groups) - 1):
        units = groups[g + 1] - groups[g]
        for size in range(low, min(high, units) + 1):
            total += units - size + 1
        if 0 < units < low:
            total += whole
    values, begins, ends = np.empty(total, np.uint64), np.empty(total, np.int32), np.empty(total, np.int32)
    rows = np.zeros(len(docs), np.int64)
    k = 0
    for d in range(len(docs) - 1):
        for g in range(docs[d], docs[d + 1]):
            first, last = groups[g], groups[g + 1]
            least = last - first if whole and last - first < low else low
            for i in range(first, last - least + 1 if last > first else first):
                state = _SEED
                for j in range(i, min(i + high, last)):
                    state = fold(state, hashes[j])
                    if j - i + 1 >= least:
                        values[k], begins[k], ends[k] = state, starts[i], starts[j + 1] - gap
                        k += 1
        rows[d + 1] = k
    return values, begins, ends, rows


@kernel_for(U8, I64, types.boolean)
def hash_terms(blob: Any, offsets: Any, words: bool) -> NDArray[np.uint64]:
    """Hashes of stored grams, equal to those `list_grams` gives: units end at blanks, or at each character."""
    values = np.empty(len(offsets) - 1, np.uint64)
    for t in range(len(values)):
        state, unit = _SEED, _SEED
        for i in range(offsets[t], offsets[t + 1]):
            if words and blob[i] == 32:
                state, unit = fold(state, unit), _SEED
                continue
            if not words and i > offsets[t] and blob[i] & 0xC0 != 0x80:
                state, unit = fold(state, unit), _SEED
            unit = (unit ^ np.uint64(blob[i])) * _PRIME
        values[t] = fold(state, unit)
    return values
