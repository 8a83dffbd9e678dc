"""Texts to hashed n-grams: a scanner over UTF-8 bytes and a table of characters.

A scan writes a tidy copy of a block of texts in which every gram is one unbroken run of bytes: words in lower case
with one space between them, or characters with white space settled. It is cut into units (words or characters);
`list_grams` then names each gram by its bytes and by a 64-bit hash that is a fold over the hashes of its units.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from treetop.kernels.runtime.compile import kernel, kernel_for
from treetop.kernels.text.characters import LOWER, ODD, RUN, SPACE, WORD, decode, encode

types: Any = numba.types

U8 = types.Array(types.uint8, 1, "C", readonly=True)
U32 = types.Array(types.uint32, 1, "C", readonly=True)
U64 = types.Array(types.uint64, 1, "C", readonly=True)
I32 = types.Array(types.int32, 1, "C", readonly=True)
I64 = types.Array(types.int64, 1, "C", readonly=True)
FLAGS = types.Array(types.boolean, 1, "C", readonly=True)
SCAN = types.Tuple((U8, I32, U64, I64, I64, FLAGS))  # what a scan gives
# Read-only signatures take both kinds of arrays, so that a memory-mapped model compiles nothing of its own.

_SEED = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x00000100000001B3)
_K1 = np.uint64(0xFF51AFD7ED558CCD)
_K2 = np.uint64(0xC4CEB9FE1A85EC53)
_S29, _S32 = np.uint64(29), np.uint64(32)


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
            point, size = decode(blob, i, end)
            if point < 0 or (lower and table[point] & ODD):
                odd[d] = True
                break
            i += size
    return odd


@kernel
def _plain_words(table: Any, lower: bool) -> NDArray[np.uint8]:
    """(256,) what a byte that is a WORD character by itself is written as, 0 for all others."""
    plain = np.zeros(256, np.uint8)
    for byte in range(0x80):
        if table[byte] & WORD:
            plain[byte] = table[byte] & LOWER if lower else byte
    return plain


@kernel
def _scan_run(source: Any, i: int, end: int, inside: int, target: Any, at: int, k: int) -> Any:
    """(next byte, next place in the buffer, next unit): copies a run, each character with its marks as one unit."""
    blob, table = source
    buffer, starts = target
    while i < end:
        point, step = decode(blob, i, end)
        entry = np.int64(table[point]) if point >= 0 else 0
        if entry & RUN:
            starts[k] = at
            k += 1
        elif entry & WORD or entry & inside == 0:
            break
        at = encode(buffer, at, point)  # these scripts have no lower case
        i += step
    return i, at, k


@kernel_for(U8, I64, U32, types.int64, types.int64, types.boolean, types.boolean)
def scan_words(blob: Any, offsets: Any, table: Any, inside: int, shortest: int, lower: bool, split_runs: bool) -> Any:
    """(buffer, starts, hashes, groups, docs, runs) of the words of each text.

    A word begins with a WORD character, goes on with WORD or any of the bits `inside`, and has at least `shortest`
    characters. Unit i lies at starts[i] .. starts[i + 1] - 1, which leaves out the space. With `split_runs`, characters
    of scripts without blanks (RUN) are units of their own, without spaces and hashes; each run is a group.
    """
    n, size = len(offsets) - 1, offsets[-1] - offsets[0]
    buffer = np.empty(size + size // 2 + n + 8, np.uint8)  # lower case makes 2 bytes 3 at worst
    starts = np.empty((size + n) // 2 + 2, np.int32)
    hashes = np.empty(len(starts), np.uint64)
    groups, runs = np.empty(len(starts) + n, np.int64), np.empty(len(starts) + n, np.bool_)
    docs = np.zeros(n + 1, np.int64)
    run: Any = RUN if split_runs else 0
    plain = _plain_words(table, lower)
    at, k, g = 0, 0, 0
    groups[0] = 0
    for d in range(n):
        i, end = offsets[d], offsets[d + 1]
        first, length, value = at, 0, _SEED
        while i <= end:
            begin = at
            while i < end:  # nearly every byte of most texts ends here
                letter = plain[blob[i]]
                if letter == 0:
                    break
                buffer[at] = letter
                value = (value ^ np.uint64(letter)) * _PRIME
                at += 1
                i += 1
            length += at - begin
            entry: Any = 0
            point: Any = -1  # after the last byte: as if there were a blank
            step = 1
            if i < end:
                point, step = decode(blob, i, end)
                if point >= 0:
                    entry = np.int64(table[point])
            i += step
            if entry & run == 0 and (entry & WORD or (length > 0 and entry & inside)):
                begin = at
                at = encode(buffer, at, entry & LOWER if lower else point)
                value = _hash_on(value, buffer, begin, at)
                length += 1
                continue
            if length > 0:
                if length >= shortest:
                    starts[k], hashes[k] = first, value
                    k += 1
                    buffer[at] = 32
                    first = at + 1
                at, length, value = first, 0, _SEED
            if entry & run or (i > end and k > groups[g]):  # a run, or the end of the text, ends a group of words
                if k > groups[g]:
                    g += 1
                    groups[g], runs[g - 1] = k, False
                if entry & run:
                    i, at, k = _scan_run((blob, table), i - step, end, inside, (buffer, starts), at, k)
                    g += 1
                    groups[g], runs[g - 1], first = k, True, at
        docs[d + 1] = g
    starts[k] = at
    return buffer[:at], starts[: k + 1], hashes[:k], groups[: g + 1], docs, runs[:g]


@kernel_for(U8, I64, U32, types.boolean, types.boolean)
def scan_characters(blob: Any, offsets: Any, table: Any, within_words: bool, lower: bool) -> Any:
    """(buffer, starts, hashes, groups, docs, runs) of the characters of each text; there are no runs.

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
                point, step = decode(blob, i, end)
            i += step
            entry = np.int64(table[point]) if point >= 0 else SPACE
            if entry & SPACE == 0:
                if within_words and not is_open:
                    buffer[at], starts[k], hashes[k], is_open = 32, at, blank, True
                    at, k = at + 1, k + 1
                starts[k] = at
                at = encode(buffer, at, entry & LOWER if lower else point)
                hashes[k] = _hash_on(_SEED, buffer, starts[k], at)
                k += 1
            elif is_open:
                buffer[at], starts[k], hashes[k], is_open = 32, at, blank, False
                at, k, g = at + 1, k + 1, g + 1
                groups[g] = k
            elif not within_words and i <= end:
                run = 1
                while i < end:
                    after, step = decode(blob, i, end)
                    if after >= 0 and table[after] & SPACE == 0:
                        break
                    i += step
                    run += 1
                starts[k] = at
                at = encode(buffer, at, 32 if run > 1 or point < 0 else point)
                hashes[k] = _hash_on(_SEED, buffer, starts[k], at)
                k += 1
        if not within_words:
            g += 1
            groups[g] = k
        docs[d + 1] = g
    starts[k] = at
    return buffer[:at], starts[: k + 1], hashes[:k], groups[: g + 1], docs, np.zeros(g, np.bool_)


@kernel
def _count_grams(groups: Any, runs: Any, shape: tuple[int, int, int, int], run_shape: tuple[int, int]) -> int:
    total = 0
    for g in range(len(groups) - 1):
        low, high, _, whole = shape
        if runs[g]:
            low, high, whole = run_shape[0], run_shape[1], 1
        units = groups[g + 1] - groups[g]
        for size in range(low, min(high, units) + 1):
            total += units - size + 1
        if 0 < units < low:
            total += whole
    return total


@kernel
def _list_run(buffer: Any, starts: Any, first: int, last: int, run_shape: tuple[int, int], out: Any, k: int) -> int:
    """List the grams of one run, each hashed as one word; returns the number of grams so far."""
    values, begins, ends = out
    low, high = run_shape
    least = min(low, last - first)
    for i in range(first, last - least + 1):
        value = _SEED
        for j in range(i, min(i + high, last)):
            value = _hash_on(value, buffer, starts[j], starts[j + 1])
            if j - i + 1 >= least:
                values[k], begins[k], ends[k] = fold(_SEED, value), starts[i], starts[j + 1]
                k += 1
    return k


@kernel_for(SCAN, types.UniTuple(types.int64, 4), types.UniTuple(types.int64, 2))
def list_grams(scan: Any, shape: tuple[int, int, int, int], run_shape: tuple[int, int]) -> Any:
    """(hash, start, stop, rows): every gram of every text in the order of the text; rows = pointers per text.

    `shape` = (fewest units, most units, bytes between units, 1 if a group that is too short counts once as a whole),
    `run_shape` = (fewest, most) characters in a run, where one that is too short always counts as a whole.
    """
    buffer, starts, hashes, groups, docs, runs = scan
    low, high, gap, whole = shape
    total = _count_grams(groups, runs, shape, run_shape)
    values, begins, ends = np.empty(total, np.uint64), np.empty(total, np.int32), np.empty(total, np.int32)
    rows = np.zeros(len(docs), np.int64)
    k = 0
    for d in range(len(docs) - 1):
        for g in range(docs[d], docs[d + 1]):
            first, last = groups[g], groups[g + 1]
            if runs[g]:
                k = _list_run(buffer, starts, first, last, run_shape, (values, begins, ends), k)
                continue
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


@kernel_for(I32, I32, U8, I64)
def rewrite(ids: Any, gaps: Any, blob: Any, offsets: Any) -> Any:
    """(buffer, starts, hashes) of units that are strings `ids` of a blob, each with so many blanks after it."""
    size = 0
    for i in range(len(ids)):
        size += offsets[ids[i] + 1] - offsets[ids[i]] + gaps[i]
    buffer, starts = np.empty(size, np.uint8), np.empty(len(ids) + 1, np.int32)
    hashes = np.empty(len(ids), np.uint64)
    at = 0
    for i in range(len(ids)):
        starts[i] = at
        for j in range(offsets[ids[i]], offsets[ids[i] + 1]):
            buffer[at] = blob[j]
            at += 1
        hashes[i] = _hash_on(_SEED, buffer, starts[i], at)
        for _ in range(gaps[i]):
            buffer[at] = 32
            at += 1
    starts[len(ids)] = at
    return buffer, starts, hashes
