"""Every character: its lower case, what it is in a text, and how it is read from and written as UTF-8."""

from __future__ import annotations

import functools
import re
import unicodedata
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treetop.kernels.runtime.compile import kernel
from treetop.kernels.text.scripts import UNSPACED, script_table

LOWER = 0x1FFFFF  # bits of the lower-case code point in an entry of the character table
WORD, MARK, SPACE, ODD, RUN = 1 << 21, 1 << 22, 1 << 23, 1 << 24, 1 << 25
_JOINERS = (0x200C, 0x200D)  # occur inside Persian and Indic words


@functools.cache
def characters() -> NDArray[np.uint32]:
    """For every code point its lower case and what it is: a word character, a mark, white space, odd, part of a run.

    Odd are those whose lower case depends on their neighbours (final sigma) or is longer than one character. Runs are
    of letters that are written without blanks between words.
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
    unspaced = np.flatnonzero(np.isin(script_table(), UNSPACED) & (table & WORD > 0))
    table[[i for i in unspaced.tolist() if not chr(i).isdecimal()]] |= np.uint32(RUN)
    table.setflags(write=False)
    return table


@kernel
def decode(blob: Any, i: int, end: int) -> Any:
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
def encode(buffer: Any, at: int, point: Any) -> int:
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
