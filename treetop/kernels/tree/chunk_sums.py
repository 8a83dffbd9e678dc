"""Sums of a chunk's functions for one document: its rows are found by search, or in a table built for a batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from treetop.kernels.linear.lanes import WIDTH, add_line
from treetop.kernels.runtime.compile import kernel, tight
from treetop.kernels.runtime.prefetch import prefetch
from treetop.kernels.sparse import F32, U32, Rows
from treetop.kernels.tree.chunks import Chunks, entries_in, name_of, rows_at, slot_at, weight_at

# A cell of a table is stamp | first entry or place of a vector | number of entries; a cell of another chunk has
# another stamp, so that nobody need empty the table. The last cell holds the stamp of the chunk in it.
COUNT, FIRST, STAMPS = 16, 28, 20  # bits of each
LINE = np.uint64((1 << COUNT) - 1)  # instead of a number of entries: a vector
NO_BATCH = (np.zeros(0, np.uint32), np.zeros(0, np.uint32), np.zeros(0, np.uint64))


@kernel
def prepare(X: Rows, bits: int) -> Any:
    """Numbers from 1 for the features of a batch, frequent ones first: (per name, per entry, an empty table).

    A table has a cell for each number and one for features that are not in the batch, room to list as many, the stamp.
    """
    first, last = X.indptr[0], X.indptr[len(X.indptr) - 1]
    numbers, at_entry = np.zeros(np.int64(1) << bits, np.uint32), np.zeros(last, np.uint32)
    seen, n = np.empty(last - first, np.uint32), 0
    for q in range(first, last):
        name = name_of(X.indices[q], bits)
        at_entry[q] = np.uint32(name)
        if numbers[name] == 0:
            seen[n] = name
            n += 1
        numbers[name] += np.uint32(1)
    tops, size = np.zeros(34, np.uint32), np.zeros(n, np.uint8)  # by the bits of a count is order enough
    for k in range(n):
        while numbers[seen[k]] >> size[k]:
            size[k] += np.uint8(1)
        tops[32 - size[k]] += np.uint32(1)
    total = np.uint32(1)
    for b in range(34):
        total += tops[b]
        tops[b] = total - tops[b]
    for k in range(n):
        numbers[seen[k]] = tops[32 - size[k]]
        tops[32 - size[k]] += np.uint32(1)
    for q in range(first, last):
        at_entry[q] = numbers[at_entry[q]]
    return numbers, at_entry, np.zeros(2 * n + 2, np.uint64)


@kernel
def _zeros(n: Any) -> Any:
    """Zeros from the start of a cache line on, so that no vector of them lies in two."""
    room = np.zeros(n + WIDTH, np.float32)
    skipped = -(room.ctypes.data // 4) % WIDTH
    return room[skipped : skipped + n]


@kernel
def new_scratch(chunks: Chunks, X: Rows) -> Any:
    """Sums of a chunk, with a place for any slot of one byte, and room for the rows a document's features find."""
    longest = np.uint64(0)
    for document in range(len(X.indptr) - 1):
        longest = max(longest, X.indptr[document + 1] - X.indptr[document])
    return _zeros(max(chunks.sizes[0], 256) + WIDTH), np.empty((np.int64(longest), 3), np.uint64)


@tight
def sum_by_search(chunks: Chunks, chunk: Any, X: Rows, document: Any, sums: F32, found: Any) -> None:
    """Sums of a chunk's functions for one document, each row searched for.

    First all buckets, then all rows, then all entries, each asked for one step ahead: the waits for memory overlap.
    """
    start, bits, n_sums = X.indptr[document], chunks.sizes[1], np.uint64(len(sums))
    n, low = X.indptr[document + np.uint32(1)] - start, np.uint64(chunks.bucket_ptr[chunk])
    for q in range(n):
        bucket = low + (name_of(X.indices[start + q], bits) >> np.uint64(chunks.shifts[chunk]))
        prefetch(chunks.buckets, np.uint64(2) * bucket)
    for q in range(n):
        first, end, entry = rows_at(chunks, chunk, name_of(X.indices[start + q], bits))
        found[q, 0], found[q, 1], found[q, 2] = first, end, entry
        prefetch(chunks.lows, first)
        prefetch(chunks.counts, first)
    hits = np.uint64(0)
    for q in range(n):
        rows = (found[q, 0], found[q, 1], found[q, 2])
        first, end = entries_in(chunks, chunk, name_of(X.indices[start + q], bits), rows)
        found[hits, 0], found[hits, 1], found[hits, 2] = first, end, start + q
        hits += np.uint64(first < end)
        prefetch(chunks.slots, first)
        prefetch(chunks.weights, first)
    for hit in range(hits):
        x = X.values[found[hit, 2]]
        for p in range(found[hit, 0], found[hit, 1]):
            sums[slot_at(chunks.slots, p, n_sums)] += x * weight_at(chunks.weights, p)


@tight
def sum_by_table(chunks: Chunks, chunk: Any, X: Rows, document: Any, sums: F32, tables: Any) -> None:
    """The same sums, rows found in a table under the batch's own feature numbers; full rows lie there as vectors."""
    numbers, table, lines = tables
    stamp, count, mask = table[len(table) - 1], np.uint64(COUNT), np.uint64((1 << FIRST) - 1)
    groups, base, n_sums = np.uint64(lines.shape[1] // WIDTH), np.uint64(chunks.entry_ptr[chunk]), np.uint64(len(sums))
    for q in range(X.indptr[document], X.indptr[document + np.uint32(1)]):
        cell = table[numbers[q]]
        if cell >> np.uint64(COUNT + FIRST) != stamp:
            continue
        first, n = (cell >> count) & mask, cell & LINE
        if n == LINE:
            add_line(lines, first, X.values[q], groups, sums)
            continue
        x = X.values[q]
        for p in range(base + first, base + first + n):
            sums[slot_at(chunks.slots, p, n_sums)] += x * weight_at(chunks.weights, p)


@tight
def fits_table(chunks: Chunks, chunk: Any, table: Any) -> Any:
    """Whether a chunk's entries can be named in a cell, and stamps are left for it."""
    if len(table) == 0:
        return False
    n_slots = chunks.slot_ptr[chunk + np.uint32(1)] - chunks.slot_ptr[chunk]
    n_entries = chunks.entry_ptr[chunk + np.uint32(1)] - chunks.entry_ptr[chunk]
    left = table[len(table) - 1] + np.uint64(1) < np.uint64(1 << STAMPS)
    return left and n_slots < (1 << COUNT) - 1 and n_entries < 1 << FIRST


@tight
def _enter_rows(chunks: Chunks, chunk: Any, numbers: U32, table: Any, n_slots: Any) -> Any:
    """Enter each row under the next stamp; the fuller ones are listed at the end of the table. Returns how many.

    Rows of features that are not in the batch go to cell 0, which nobody reads: cheaper than to ask.
    """
    buckets, low = np.uint64(chunks.bucket_ptr[chunk]), np.uint64(chunks.row_ptr[chunk])
    n_buckets = np.uint64(chunks.bucket_ptr[chunk + np.uint32(1)]) - buckets - np.uint64(1)
    n_rows = np.uint64(chunks.row_ptr[chunk + np.uint32(1)]) - low
    n_entries = np.uint64(chunks.entry_ptr[chunk + np.uint32(1)] - chunks.entry_ptr[chunk])
    shift, mask = np.uint64(chunks.shifts[chunk]), (np.uint64(1) << np.uint64(chunks.shifts[chunk])) - np.uint64(1)
    last, count = np.uint64(len(table)) - np.uint64(1), np.uint64(COUNT)
    table[last] += np.uint64(1)
    stamp = table[last] << np.uint64(COUNT + FIRST)
    row, full, entry, most = np.uint64(0), np.uint64(0), np.uint64(0), last >> np.uint64(1)
    for b in range(n_buckets):
        end = min(np.uint64(chunks.buckets[buckets + b + np.uint64(1), 0]), n_rows)
        while row < end:
            n = min(np.uint64(chunks.counts[low + row]), n_entries - entry, n_slots)
            number = numbers[(b << shift) | (np.uint64(chunks.lows[low + row]) & mask)]
            table[number] = stamp | (entry << count) | n
            if n * np.uint64(8) >= n_slots and number and full < most:
                full += np.uint64(1)
                table[last - full] = number
            entry += n
            row += np.uint64(1)
    return full


@kernel
def fill_table(chunks: Chunks, chunk: Any, numbers: U32, table: Any) -> Any:
    """Enter the rows of a chunk under the batch's own feature numbers; returns the fuller rows as vectors.

    A row with an eighth of the slots or more becomes a vector: adding x * 0 to the others changes no bit.
    """
    n_slots = np.uint64(chunks.slot_ptr[chunk + np.uint32(1)] - chunks.slot_ptr[chunk])
    full = _enter_rows(chunks, chunk, numbers, table, n_slots)
    width = (max(n_slots, np.uint64(1)) + np.uint64(WIDTH - 1)) // np.uint64(WIDTH) * np.uint64(WIDTH)
    lines = _zeros(np.int64(full) * np.int64(width)).reshape((np.int64(full), np.int64(width)))
    base, last = np.uint64(chunks.entry_ptr[chunk]), np.uint64(len(table)) - np.uint64(1)
    for k in range(full):  # their ids are at the end of the table
        number = table[last - k - np.uint64(1)]
        cell = table[number]
        if cell & LINE == LINE:  # a damaged chunk may name a feature twice
            continue
        first = base + ((cell >> np.uint64(COUNT)) & np.uint64((1 << FIRST) - 1))
        for p in range(first, first + (cell & LINE)):
            lines[k, min(np.uint64(chunks.slots[p]), width - np.uint64(1))] = weight_at(chunks.weights, p)
        table[number] = (table[last] << np.uint64(COUNT + FIRST)) | (np.uint64(k) << np.uint64(COUNT)) | LINE
    return lines
