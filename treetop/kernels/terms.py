"""Tables of terms: hashes find a place, bytes decide, so that two terms with one hash stay two terms.

A table is open addressing over uint64 slots: the upper half of a term's hash and its id + 1; 0 is free. At most half
of the slots are taken.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from treetop.kernels.text import I32, I64, U8, U64, types

F64 = types.Array(types.float64, 1, "C", readonly=True)
_TAG = np.uint64(0xFFFFFFFF00000000)
_ID = np.uint64(0x00000000FFFFFFFF)
_ZERO, _ONE = np.uint64(0), np.uint64(1)


GRAMS = types.Tuple((U8, U64, I32, I32, I64))  # buffer, hashes, begins, ends, rows
STORE = types.Tuple([types.Array(kind, 1, "C") for kind in (types.uint64, types.uint64, types.int64, types.uint8)])
TERMS = types.Tuple((U64, U8, I64))  # table, blob, offsets


@numba.njit(cache=True, nogil=True)
def _same(left: Any, a: int, a_end: int, right: Any, b: int, b_end: int) -> bool:
    if a_end - a != b_end - b:
        return False
    for i in range(a_end - a):  # noqa: SIM110 - numba has no generators here
        if left[a + i] != right[b + i]:
            return False
    return True


@numba.njit(cache=True, nogil=True)
def _put(table: Any, value: np.uint64, term: int) -> None:
    """Enter a term that is known to be new."""
    mask = np.uint64(len(table) - 1)
    slot = value & mask
    while table[slot] != _ZERO:
        slot = (slot + _ONE) & mask
    table[slot] = (value & _TAG) | np.uint64(term + 1)


def table_size(n: int) -> int:
    """Slots for `n` terms: a power of two, at least twice as many."""
    return max(16, 1 << (2 * n - 1).bit_length())


@numba.njit((types.Array(types.uint64, 1, "C"), U64), cache=True, nogil=True)
def fill_table(table: Any, values: Any) -> None:
    """Enter terms 0, 1, ... with these hashes into an empty table."""
    for term in range(len(values)):
        _put(table, values[term], term)


def build_table(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The table of terms 0, 1, ... with these hashes."""
    table = np.zeros(table_size(len(values)), np.uint64)
    fill_table(table, values)
    return table


@numba.njit((GRAMS,), cache=True, nogil=True)
def count_terms(grams: Any) -> Any:
    """(ids, counts, pointers, places, uses): each text's distinct terms, ids given in the order of first sight.

    places[t] is the gram where term t was first seen, uses[t] in how many texts it is.
    """
    buffer, values, begins, ends, rows = grams
    total, n = len(values), len(rows) - 1
    ids, counts = np.empty(total, np.int32), np.empty(total, np.int32)
    pointers = np.zeros(n + 1, np.int64)
    places, latest = np.empty(total, np.int64), np.empty(total, np.int64)
    uses = np.empty(total, np.int32)
    table = np.zeros(1 << 12, np.uint64)
    mask, terms, k = np.uint64(len(table) - 1), 0, 0
    for d in range(n):
        row = k
        for gram in range(rows[d], rows[d + 1]):
            value = values[gram]
            slot = value & mask
            term = np.int64(-1)
            while table[slot] != _ZERO:
                if (table[slot] ^ value) & _TAG == _ZERO:
                    seen = np.int64(table[slot] & _ID) - 1
                    place = places[seen]
                    if _same(buffer, begins[gram], ends[gram], buffer, begins[place], ends[place]):
                        term = seen
                        break
                slot = (slot + _ONE) & mask
            if term < 0:
                term = np.int64(terms)
                table[slot] = (value & _TAG) | np.uint64(term + 1)
                places[term], latest[term], uses[term] = gram, -1, 0
                terms += 1
                if 2 * terms > len(table):
                    table = np.zeros(4 * len(table), np.uint64)
                    mask = np.uint64(len(table) - 1)
                    for t in range(terms):
                        _put(table, values[places[t]], t)
            if latest[term] >= row:  # entries only grow, so this one belongs to this text
                counts[latest[term]] += 1
            else:
                ids[k], counts[k], latest[term] = term, 1, k
                uses[term] += 1
                k += 1
        pointers[d + 1] = k
    return ids[:k].copy(), counts[:k].copy(), pointers, places[:terms].copy(), uses[:terms].copy()


@numba.njit((GRAMS, I64, STORE, types.int64), cache=True, nogil=True)
def merge_terms(grams: Any, places: Any, store: Any, n: int) -> tuple[NDArray[np.int32], int]:
    """(ids, number of terms): where the grams at `places` stand among `n` known terms; new ones are appended.

    `store` = (table, hashes, offsets, blob) of the known terms; the caller has made room for as many new ones.
    """
    buffer, values, begins, ends, _ = grams
    table, known, offsets, blob = store
    ids = np.empty(len(places), np.int32)
    mask = np.uint64(len(table) - 1)
    for t in range(len(places)):
        gram = places[t]
        value, begin, end = values[gram], begins[gram], ends[gram]
        slot = value & mask
        ids[t] = -1
        while table[slot] != _ZERO:
            if (table[slot] ^ value) & _TAG == _ZERO:
                seen = np.int64(table[slot] & _ID) - 1
                if _same(buffer, begin, end, blob, offsets[seen], offsets[seen + 1]):
                    ids[t] = seen
                    break
            slot = (slot + _ONE) & mask
        if ids[t] < 0:
            at = offsets[n]
            for i in range(end - begin):
                blob[at + i] = buffer[begin + i]
            known[n], offsets[n + 1] = value, at + end - begin
            table[slot] = (value & _TAG) | np.uint64(n + 1)
            ids[t] = n
            n += 1
    return ids, n


@numba.njit((GRAMS, TERMS), cache=True, nogil=True)
def find_terms(grams: Any, terms: Any) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """(ids, pointers): the known terms among each text's grams, in the order of the text."""
    buffer, values, begins, ends, rows = grams
    table, blob, offsets = terms
    ids = np.empty(len(values), np.int32)
    pointers = np.zeros(len(rows), np.int64)
    mask, k = np.uint64(len(table) - 1), 0
    for d in range(len(rows) - 1):
        for gram in range(rows[d], rows[d + 1]):
            value = values[gram]
            slot = value & mask
            while table[slot] != _ZERO:
                if (table[slot] ^ value) & _TAG == _ZERO:
                    seen = np.int64(table[slot] & _ID) - 1
                    if _same(buffer, begins[gram], ends[gram], blob, offsets[seen], offsets[seen + 1]):
                        ids[k] = seen
                        k += 1
                        break
                slot = (slot + _ONE) & mask
        pointers[d + 1] = k
    return ids[:k], pointers


@numba.njit((U8, I64, I64), cache=True, nogil=True)
def prefixes(blob: Any, offsets: Any, terms: Any) -> NDArray[np.uint64]:
    """The first eight bytes of each term as a number that sorts like them."""
    keys = np.empty(len(terms), np.uint64)
    for t in range(len(terms)):
        key, start, stop = _ZERO, offsets[terms[t]], offsets[terms[t] + 1]
        for i in range(8):
            key = (key << np.uint64(8)) | (np.uint64(blob[start + i]) if start + i < stop else _ZERO)
        keys[t] = key
    return keys


@numba.njit(cache=True, nogil=True)
def _before(blob: Any, offsets: Any, left: int, right: int) -> bool:
    a, b = offsets[left], offsets[right]
    size = min(offsets[left + 1] - a, offsets[right + 1] - b)
    for i in range(size):
        if blob[a + i] != blob[b + i]:
            return bool(blob[a + i] < blob[b + i])
    return bool(offsets[left + 1] - a < offsets[right + 1] - b)


@numba.njit((U8, I64, U64, types.Array(types.int64, 1, "C")), cache=True, nogil=True)
def settle_ties(blob: Any, offsets: Any, keys: Any, terms: Any) -> None:
    """Put `terms`, sorted by their prefix `keys`, into byte order (which is code point order), in place."""
    spare = np.empty_like(terms)
    start = 0
    while start < len(terms):
        stop = start + 1
        while stop < len(terms) and keys[stop] == keys[start]:
            stop += 1
        width = 1
        while width < stop - start:  # merge sort, bottom up
            for low in range(start, stop, 2 * width):
                i, middle = low, min(low + width, stop)
                j, high = middle, min(low + 2 * width, stop)
                for k in range(low, high):
                    if j >= high or (i < middle and not _before(blob, offsets, terms[j], terms[i])):
                        spare[k] = terms[i]
                        i += 1
                    else:
                        spare[k] = terms[j]
                        j += 1
            terms[start:stop] = spare[start:stop]
            width *= 2
        start = stop


@numba.njit((U8, I64, I64), cache=True, nogil=True)
def take_terms(blob: Any, offsets: Any, terms: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """(blob, offsets) of some terms in the given order."""
    ends = np.zeros(len(terms) + 1, np.int64)
    for t in range(len(terms)):
        ends[t + 1] = ends[t] + offsets[terms[t] + 1] - offsets[terms[t]]
    made = np.empty(ends[-1], np.uint8)
    for t in range(len(terms)):
        start = offsets[terms[t]]
        for i in range(ends[t + 1] - ends[t]):
            made[ends[t] + i] = blob[start + i]
    return made, ends


@numba.njit(cache=True, nogil=True)
def _sort(keys: Any, m: int) -> None:
    if m > 40:
        keys[:m].sort()
        return
    for i in range(1, m):
        key, j = keys[i], i
        while j > 0 and keys[j - 1] > key:
            keys[j] = keys[j - 1]
            j -= 1
        keys[j] = key


@numba.njit((I64, I32, I32, I32, F64, types.UniTuple(types.boolean, 3)), cache=True, nogil=True)
def weigh(pointers: Any, ids: Any, counts: Any, columns: Any, idf: Any, rules: tuple[bool, bool, bool]) -> Any:
    """(indptr, indices, data) of tf-idf rows with ascending columns; `rules` = (binary, sublinear, l2).

    Empty `counts` mean 1 each, repeated ids add up; empty `columns` mean that ids are columns, -1 there drops a term.
    """
    binary, sublinear, l2 = rules
    n = len(pointers) - 1
    indptr = np.zeros(n + 1, np.int64)
    indices, data = np.empty(len(ids), np.int32), np.empty(len(ids), np.float32)
    keys = np.empty(len(ids), np.int64)  # column and count in one number, so that one sort moves both
    values = np.empty(len(ids), np.float64)
    k = 0
    for d in range(n):
        m = 0
        for e in range(pointers[d], pointers[d + 1]):
            column = np.int64(columns[ids[e]]) if len(columns) else np.int64(ids[e])
            if column >= 0:
                keys[m] = (column << 32) | (np.int64(counts[e]) if len(counts) else 1)
                m += 1
        _sort(keys, m)
        e, square, row = 0, 0.0, k
        while e < m:
            column, count = keys[e] >> 32, keys[e] & 0xFFFFFFFF
            e += 1
            while e < m and keys[e] >> 32 == column:
                count += keys[e] & 0xFFFFFFFF
                e += 1
            tf = 1.0 if binary or count == 1 else (1.0 + np.log(np.float64(count)) if sublinear else np.float64(count))
            values[k - row] = tf * idf[column]
            square += values[k - row] * values[k - row]
            indices[k] = column
            k += 1
        norm = np.sqrt(square) if l2 and square > 0.0 else 1.0
        for i in range(row, k):
            data[i] = values[i - row] / norm
        indptr[d + 1] = k
    return indptr, indices[:k].copy(), data[:k].copy()
