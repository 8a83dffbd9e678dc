"""Hash tables of terms: bytes are compared, so that two terms with the same hash stay distinct.

A table is open addressing over uint64 slots: the upper half of a term's hash and its id + 1; 0 is free. At most half
of the slots are taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treetop.kernels.runtime.compile import kernel, kernel_for
from treetop.kernels.text.scanner import I32, I64, U8, U64, types

_TAG = np.uint64(0xFFFFFFFF00000000)
_ID = np.uint64(0x00000000FFFFFFFF)
_ZERO, _ONE = np.uint64(0), np.uint64(1)
CHUNK = 64


GRAMS = types.Tuple((U8, U64, I32, I32, I64))  # buffer, hashes, begins, ends, rows
STORE = types.Tuple([types.Array(kind, 1, "C") for kind in (types.uint64, types.uint64, types.int64, types.uint8)])
TERMS = types.Tuple((U64, U8, I64))  # table, blob, offsets


@kernel
def _same(left: Any, a: int, a_end: int, right: Any, b: int, b_end: int) -> bool:
    if a_end - a != b_end - b:
        return False
    for i in range(a_end - a):  # noqa: SIM110 - numba has no generators here
        if left[a + i] != right[b + i]:
            return False
    return True


@kernel
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


@kernel_for(types.Array(types.uint64, 1, "C"), U64)
def fill_table(table: Any, values: Any) -> None:
    """Enter terms 0, 1, ... with these hashes into an empty table."""
    for term in range(len(values)):
        _put(table, values[term], term)


def build_table(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The table of terms 0, 1, ... with these hashes."""
    table = np.zeros(table_size(len(values)), np.uint64)
    fill_table(table, values)
    return table


@kernel
def _warm(hashes: Any, m: int, table: Any, offsets: Any, blob: Any, scratch: Any) -> None:
    """Load what a look-up of `m` hashes will touch into the cache.

    Tight loops of independent loads wait for memory together, look-ups one after the other wait each: three times as
    long in all. Loads are stored in `scratch`, else the compiler would drop them.
    """
    mask, size = np.uint64(len(table) - 1), np.uint64(len(blob))
    for i in range(m):
        scratch[i] = table[hashes[i] & mask]
    for i in range(m):
        known = scratch[i] != _ZERO and (scratch[i] ^ hashes[i]) & _TAG == _ZERO
        scratch[i] = np.uint64(offsets[np.int64(scratch[i] & _ID) - 1 if known else 0])
    for i in range(m):
        if scratch[i] < size:
            scratch[i] = blob[scratch[i]]


@kernel_for(GRAMS)
def count_terms(grams: Any) -> Any:
    """(ids, counts, pointers, places, uses): each text's distinct terms, ids given in the order of first sight.

    places[t] is the gram where term t was first seen, uses[t] in how many texts it is.
    """
    buffer, values, begins, ends, rows = grams
    total, n = len(values), len(rows) - 1
    ids, counts = np.empty(total, np.int32), np.empty(total, np.int32)
    pointers = np.zeros(n + 1, np.int64)
    places = np.empty(total, np.int64)
    facts = np.empty((total, 4), np.int32)  # of a term: begin, bytes, latest entry, uses; together in a cache line
    table = np.zeros(1 << 12, np.uint64)
    scratch = np.empty(CHUNK, np.int64)
    mask, terms, k, d, row = np.uint64(len(table) - 1), 0, 0, 0, 0
    for gram in range(total):
        if gram % CHUNK == 0:  # as in `_warm`
            m = min(CHUNK, total - gram)
            for i in range(m):
                scratch[i] = np.int64(table[values[gram + i] & mask] & _ID)
            for i in range(m):
                scratch[i] = facts[max(scratch[i] - 1, 0), 0]
        while rows[d + 1] <= gram:
            d += 1
            pointers[d] = row = k
        value, begin, size = values[gram], begins[gram], ends[gram] - begins[gram]
        slot = value & mask
        term = np.int64(-1)
        while table[slot] != _ZERO:
            if (table[slot] ^ value) & _TAG == _ZERO:
                seen = np.int64(table[slot] & _ID) - 1
                if _same(buffer, begin, begin + size, buffer, facts[seen, 0], facts[seen, 0] + facts[seen, 1]):
                    term = seen
                    break
            slot = (slot + _ONE) & mask
        if term >= 0 and facts[term, 2] >= row:  # entries only grow, so its latest belongs to this text
            counts[facts[term, 2]] += 1
            continue
        if term >= 0:
            facts[term, 2] = k
            facts[term, 3] += 1
        else:
            term = np.int64(terms)
            table[slot] = (value & _TAG) | np.uint64(term + 1)
            places[term] = gram
            facts[term, 0], facts[term, 1], facts[term, 2], facts[term, 3] = begin, size, k, 1
            terms += 1
            if 2 * terms > len(table):
                table = np.zeros(4 * len(table), np.uint64)
                mask = np.uint64(len(table) - 1)
                for t in range(terms):
                    _put(table, values[places[t]], t)
        ids[k], counts[k] = term, 1
        k += 1
    for rest in range(d + 1, n + 1):
        pointers[rest] = k
    return ids[:k].copy(), counts[:k].copy(), pointers, places[:terms].copy(), facts[:terms, 3].copy()


@kernel_for(GRAMS, I64)
def distinct_terms(grams: Any, places: Any) -> Any:
    """The n-grams at `places` alone, with a buffer of their own: all that is needed to merge a block."""
    buffer, values, begins, ends, _ = grams
    n, size = len(places), 0
    for place in places:
        size += ends[place] - begins[place]
    terms, hashes = np.empty(size, np.uint8), np.empty(n, np.uint64)
    starts, stops, at = np.empty(n, np.int32), np.empty(n, np.int32), 0
    for t in range(n):
        place = places[t]
        hashes[t], starts[t] = values[place], at
        for i in range(begins[place], ends[place]):
            terms[at] = buffer[i]
            at += 1
        stops[t] = at
    return terms, hashes, starts, stops, np.zeros(1, np.int64)


@kernel_for(GRAMS, I64, STORE, types.int64)
def merge_terms(grams: Any, places: Any, store: Any, n: int) -> tuple[NDArray[np.int32], int]:
    """(ids, number of terms): the ids of the n-grams at `places` among `n` known terms; new ones are appended.

    `store` = (table, hashes, offsets, blob) of the known terms; the caller has made room for as many new ones.
    """
    buffer, values, begins, ends, _ = grams
    table, known, offsets, blob = store
    ids = np.empty(len(places), np.int32)
    hashes, scratch = np.empty(CHUNK, np.uint64), np.empty(CHUNK, np.uint64)
    mask = np.uint64(len(table) - 1)
    for t in range(len(places)):
        if t % CHUNK == 0:
            m = min(CHUNK, len(places) - t)
            for i in range(m):
                hashes[i] = values[places[t + i]]
            _warm(hashes, m, table, offsets, blob, scratch)
        value, begin, end = hashes[t % CHUNK], begins[places[t]], ends[places[t]]
        slot = value & mask
        term = np.int64(-1)
        while table[slot] != _ZERO:
            if (table[slot] ^ value) & _TAG == _ZERO:
                seen = np.int64(table[slot] & _ID) - 1
                if _same(buffer, begin, end, blob, offsets[seen], offsets[seen + 1]):
                    term = seen
                    break
            slot = (slot + _ONE) & mask
        if term < 0:
            at = offsets[n]
            for i in range(end - begin):
                blob[at + i] = buffer[begin + i]
            known[n], offsets[n + 1] = value, at + end - begin
            table[slot] = (value & _TAG) | np.uint64(n + 1)
            term = np.int64(n)
            n += 1
        ids[t] = term
    return ids, n


@kernel_for(GRAMS, TERMS)
def find_terms(grams: Any, terms: Any) -> NDArray[np.int32]:
    """The id of each gram among known terms, -1 for those without."""
    buffer, values, begins, ends, _ = grams
    table, blob, offsets = terms
    ids = np.full(len(values), -1, np.int32)
    scratch = np.empty(CHUNK, np.uint64)
    mask = np.uint64(len(table) - 1)
    for gram in range(len(values)):
        if gram % CHUNK == 0:
            m = min(CHUNK, len(values) - gram)
            _warm(values[gram : gram + m], m, table, offsets, blob, scratch)
        value = values[gram]
        slot = value & mask
        while table[slot] != _ZERO:
            if (table[slot] ^ value) & _TAG == _ZERO:
                seen = np.int64(table[slot] & _ID) - 1
                if _same(buffer, begins[gram], ends[gram], blob, offsets[seen], offsets[seen + 1]):
                    ids[gram] = seen
                    break
            slot = (slot + _ONE) & mask
    return ids


@kernel
def _is_word(buffer: Any, begin: int, end: int) -> bool:
    for i in range(begin, end):  # noqa: SIM110 - numba has no generators here
        if buffer[i] == 32:
            return False
    return True


@kernel_for(GRAMS, I32)
def known_words(grams: Any, ids: Any) -> NDArray[np.float32]:
    """(n_texts,) the share of each text's single words (grams without a blank) with an id; NaN where it has none."""
    buffer, _, begins, ends, rows = grams
    shares = np.full(len(rows) - 1, np.nan, np.float32)
    for d in range(len(shares)):
        words, known = 0, 0
        for gram in range(rows[d], rows[d + 1]):
            if _is_word(buffer, begins[gram], ends[gram]):
                words += 1
                known += ids[gram] >= 0
        if words:
            shares[d] = np.float32(known / words)
    return shares


@kernel_for(U8, I64, I64)
def prefixes(blob: Any, offsets: Any, terms: Any) -> NDArray[np.uint64]:
    """The first eight bytes of each term as a number that sorts like them."""
    keys = np.empty(len(terms), np.uint64)
    for t in range(len(terms)):
        key, start, stop = _ZERO, offsets[terms[t]], offsets[terms[t] + 1]
        for i in range(8):
            key = (key << np.uint64(8)) | (np.uint64(blob[start + i]) if start + i < stop else _ZERO)
        keys[t] = key
    return keys


@kernel
def _before(blob: Any, offsets: Any, left: int, right: int) -> bool:
    a, b = offsets[left], offsets[right]
    size = min(offsets[left + 1] - a, offsets[right + 1] - b)
    for i in range(size):
        if blob[a + i] != blob[b + i]:
            return bool(blob[a + i] < blob[b + i])
    return bool(offsets[left + 1] - a < offsets[right + 1] - b)


@kernel_for(U8, I64, U64, types.Array(types.int64, 1, "C"))
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
            for k in range(start, stop):
                terms[k] = spare[k]
            width *= 2
        start = stop


@kernel_for(U8, I64, I64)
def take_terms(blob: Any, offsets: Any, terms: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """(blob, offsets) of some terms in the given order."""
    ends = np.zeros(len(terms) + 1, np.int64)
    for t in range(len(terms)):
        ends[t + 1] = ends[t] + offsets[terms[t] + 1] - offsets[terms[t]]
    taken = np.empty(ends[-1], np.uint8)
    scratch = np.empty(CHUNK, np.uint8)
    for t in range(len(terms)):
        if t % CHUNK == 0:  # as in `_warm`
            for i in range(min(CHUNK, len(terms) - t)):
                scratch[i] = blob[offsets[terms[t + i]]]
        start = offsets[terms[t]]
        for i in range(ends[t + 1] - ends[t]):
            taken[ends[t] + i] = blob[start + i]
    return taken, ends
