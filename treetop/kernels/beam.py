"""Scores of (document, chunk) pairs and the best few of each document: one level of a walk down a tree.

Pairs are visited chunk by chunk, so that a chunk's rows stay in the cache. Every score is one float32 sum over the
document's features in ascending order, then scale and bias: its bits depend neither on the batch nor on how a row was
found. Ties go to the lower id.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treetop.kernels.chunks import ABSENT, COPY, Chunks, entries_in, name_of, rows_at, slot_at, weight_at
from treetop.kernels.compile import kernel, tight
from treetop.kernels.lanes import WIDTH, add_line
from treetop.kernels.prefetch import prefetch
from treetop.kernels.scores import OWN, PARENT, Rule, combined, lowest_margin, transformed
from treetop.kernels.sparse import F32, U32, Rows
from treetop.kernels.topk import Best, heaps, in_order, key_of, kth_largest, push, score_in

LINE = np.uint32(0xFFFFFFFF)  # marks a table entry that names a vector


class Pairs(NamedTuple):
    """(document, chunk) pairs sorted by chunk, with the parent's scores."""

    chunks: U32
    documents: U32
    own: F32
    score: F32


@tight
def _lowest(best: Best, pair: Any, rule: Rule, margins: F32, n: Any) -> Any:
    """The margin a candidate of this pair needs to be worth a closer look."""
    document, parent_own, parent_score = pair
    keep = best.keys.shape[1]
    if best.size[document] < keep or keep == 0:
        if keep == 0 or keep >= n:
            return np.float32(-np.inf)
        own = transformed(kth_largest(margins, n, best.spare), rule)
        worst = own if rule.by_own else combined(own, parent_own, parent_score, rule)
    else:
        worst = score_in(best.keys[document, 0])
    parent = np.float32(0 if rule.adds else 1)
    if rule.combine != OWN and not rule.by_own:
        parent = parent_own if rule.combine == PARENT else parent_score
    return lowest_margin(worst, parent, rule)


@tight
def _hopeless(best: Best, pair: Any, rule: Rule) -> Any:
    """Whether no child of this pair can be among the best: along a path a score never exceeds its parent's."""
    document, parent_own, parent_score = pair
    if rule.combine == OWN or rule.by_own or np.uint64(best.size[document]) < np.uint64(best.keys.shape[1]):
        return False
    parent = parent_own if rule.combine == PARENT else parent_score
    return best.keys.shape[1] > 0 and parent < score_in(best.keys[document, 0])


@tight
def _offer_slot(chunks: Chunks, slot: Any, margin: Any, pair: Any, rule: Rule, best: Best) -> None:
    document, parent_own, parent_score = pair
    flag = chunks.flags[slot]
    if flag == ABSENT:
        return
    own, score = parent_own, parent_score
    if flag != COPY:
        own = transformed(margin, rule)
        score = combined(own, parent_own, parent_score, rule)
    key = key_of(own if rule.by_own else score, chunks.ids[slot])
    push(best.size, best.keys, best.other, document, key, score if rule.by_own else own)


@tight
def _to_margins(sums: F32, first: Any, n: Any, scale: F32, bias: F32) -> None:
    """Scale and bias behind the sums: the one place where margins are made."""
    if len(scale):
        for k in range(n):
            sums[k] *= scale[first + k]
    for k in range(n):
        sums[k] += bias[first + k]


@tight
def _any_above(values: F32, first: Any, end: Any, cut: Any) -> Any:
    """How many of a stretch reach `cut`: counted without branches, so that it runs on vectors."""
    found = np.int32(0)
    for k in range(first, end):
        found += np.int32(values[k] >= cut)
    return found


@tight
def _offer_chunk(chunks: Chunks, chunk: Any, sums: F32, pair: Any, rule: Rule, best: Best) -> None:
    """Offer the functions of a chunk that may be among the best; `sums` becomes zero again."""
    first = np.uint64(chunks.slot_ptr[chunk])
    n = np.uint64(chunks.slot_ptr[chunk + np.uint32(1)]) - first
    _to_margins(sums, first, n, chunks.scale, chunks.bias)
    special = len(chunks.special) > 0
    cut = np.float32(-np.inf) if special else _lowest(best, pair, rule, sums, n)
    for group in range(np.uint64(0), n, np.uint64(WIDTH)):
        end = min(group + np.uint64(WIDTH), n)
        if _any_above(sums, group, end, cut):
            for k in range(group, end):
                if sums[k] >= cut:
                    _offer_slot(chunks, first + k, sums[k], pair, rule, best)
    for k in range(n):
        sums[k] = np.float32(0)


@tight
def _sum_by_search(chunks: Chunks, chunk: Any, X: Rows, document: Any, sums: F32, found: Any) -> None:
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
def _sum_by_table(chunks: Chunks, chunk: Any, X: Rows, document: Any, sums: F32, tables: Any) -> None:
    """The same sums, rows found in a table under the batch's own feature numbers; full rows lie there as vectors.

    A table entry is (1 + first entry within the chunk, end), or (LINE, place of the vector).
    """
    numbers, table, lines = tables
    groups, base, n_sums = np.uint64(lines.shape[1] // WIDTH), np.uint64(chunks.entry_ptr[chunk]), np.uint64(len(sums))
    for q in range(X.indptr[document], X.indptr[document + np.uint32(1)]):
        number = numbers[q]
        first = table[number, 0]
        if first == LINE:
            add_line(lines, table[number, 1], X.values[q], groups, sums)
        elif first:
            x = X.values[q]
            for p in range(base + np.uint64(first) - np.uint64(1), base + np.uint64(table[number, 1])):
                sums[slot_at(chunks.slots, p, n_sums)] += x * weight_at(chunks.weights, p)


@tight
def _enter_rows(chunks: Chunks, chunk: Any, numbers: U32, table: Any, n_slots: Any) -> Any:
    """Enter (1 + first entry, end) of each row; full ones are listed at the end of the table. Returns how many."""
    buckets, low, n_buckets, n_rows = _extent(chunks, chunk)
    n_entries = np.uint64(chunks.entry_ptr[chunk + np.uint32(1)] - chunks.entry_ptr[chunk])
    shift, mask = np.uint64(chunks.shifts[chunk]), (np.uint64(1) << np.uint64(chunks.shifts[chunk])) - np.uint64(1)
    row, full, entry, most = np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(len(table)) >> np.uint64(1)
    for b in range(n_buckets):
        end = min(np.uint64(chunks.buckets[buckets + b + np.uint64(1), 0]), n_rows)
        while row < end:
            after = min(entry + np.uint64(chunks.counts[low + row]), n_entries)
            number = numbers[(b << shift) | (np.uint64(chunks.lows[low + row]) & mask)]
            if number:
                table[number, 0], table[number, 1] = np.uint32(entry + np.uint64(1)), np.uint32(after)
                if (after - entry) * np.uint64(8) >= n_slots and full < most:
                    full += np.uint64(1)
                    table[np.uint64(len(table)) - full, 1] = number
            entry = after
            row += np.uint64(1)
    return full


@tight
def _extent(chunks: Chunks, chunk: Any) -> Any:
    """(first bucket, first row, number of buckets, of rows) of a chunk."""
    buckets, low = np.uint64(chunks.bucket_ptr[chunk]), np.uint64(chunks.row_ptr[chunk])
    n_buckets = np.uint64(chunks.bucket_ptr[chunk + np.uint32(1)]) - buckets - np.uint64(1)
    return buckets, low, n_buckets, np.uint64(chunks.row_ptr[chunk + np.uint32(1)]) - low


@tight
def _empty(chunks: Chunks, chunk: Any, numbers: U32, table: Any) -> None:
    buckets, low, n_buckets, n_rows = _extent(chunks, chunk)
    shift, mask = np.uint64(chunks.shifts[chunk]), (np.uint64(1) << np.uint64(chunks.shifts[chunk])) - np.uint64(1)
    row = np.uint64(0)
    for b in range(n_buckets):
        end = min(np.uint64(chunks.buckets[buckets + b + np.uint64(1), 0]), n_rows)
        while row < end:
            table[numbers[(b << shift) | (np.uint64(chunks.lows[low + row]) & mask)], 0] = np.uint32(0)
            row += np.uint64(1)


@kernel
def _fill(chunks: Chunks, chunk: Any, numbers: U32, table: Any) -> Any:
    """Enter the rows of a chunk under the batch's own feature numbers; returns the fuller rows as vectors.

    A row with an eighth of the slots or more becomes a vector: adding x * 0 to the others changes no bit.
    """
    n_slots = np.uint64(chunks.slot_ptr[chunk + np.uint32(1)] - chunks.slot_ptr[chunk])
    full = _enter_rows(chunks, chunk, numbers, table, n_slots)
    width = (max(n_slots, np.uint64(1)) + np.uint64(WIDTH - 1)) // np.uint64(WIDTH) * np.uint64(WIDTH)
    lines = _zeros(np.int64(full) * np.int64(width)).reshape((np.int64(full), np.int64(width)))
    base = np.uint64(chunks.entry_ptr[chunk])
    for k in range(full):  # their numbers stand at the end of the table
        number = np.uint64(table[np.uint64(len(table)) - k - np.uint64(1), 1])
        first, end = np.uint64(table[number, 0]) - np.uint64(1), np.uint64(table[number, 1])
        for p in range(base + first, base + end):
            lines[k, min(np.uint64(chunks.slots[p]), width - np.uint64(1))] = weight_at(chunks.weights, p)
        table[number, 0], table[number, 1] = LINE, np.uint32(k)
    return lines


@tight
def _rank_run(chunks: Chunks, X: Rows, pairs: Pairs, run: Any, rule: Rule, best: Best) -> None:
    """The pairs of one chunk: run = (first pair, end, by table?, scratch, tables)."""
    first, end, by_table, (sums, found), tables = run
    chunk = pairs.chunks[first]
    keep = np.uint64(best.keys.shape[1])
    for p in range(first, end):
        ahead = pairs.documents[min(p + np.uint64(2), end - np.uint64(1))]
        prefetch(best.keys, ahead * keep)
        prefetch(X.values, X.indptr[ahead])
        prefetch(tables[0] if by_table else X.indices, X.indptr[ahead])
        pair = (pairs.documents[p], pairs.own[p], pairs.score[p])
        if _hopeless(best, pair, rule):
            continue
        if by_table:
            _sum_by_table(chunks, chunk, X, pair[0], sums, tables)
        else:
            _sum_by_search(chunks, chunk, X, pair[0], sums, found)
        _offer_chunk(chunks, chunk, sums, pair, rule, best)


@kernel
def _scratch(chunks: Chunks, X: Rows) -> Any:
    """Sums of a chunk, with a place for any slot of one byte, and room for the rows a document's features find."""
    longest = np.uint64(0)
    for document in range(len(X.indptr) - 1):
        longest = max(longest, X.indptr[document + 1] - X.indptr[document])
    return _zeros(max(chunks.sizes[0], 256) + WIDTH), np.empty((np.int64(longest), 3), np.uint64)


@kernel
def _zeros(n: Any) -> Any:
    """Zeros from the start of a cache line on, so that no vector of them lies in two."""
    room = np.zeros(n + WIDTH, np.float32)
    skipped = -(room.ctypes.data // 4) % WIDTH
    return room[skipped : skipped + n]


@kernel
def rank_pairs(chunks: Chunks, X: Rows, pairs: Pairs, rule: Rule, best: Best, batch: Any) -> None:
    """Offer every function of every pair's chunk to its document; `batch` comes from `prepare`."""
    numbers, at_entry, table = batch
    scratch = _scratch(chunks, X)
    lines = np.zeros((0, WIDTH), np.float32)
    at, n = np.uint64(0), np.uint64(len(pairs.chunks))
    while at < n:
        chunk, end = pairs.chunks[at], at
        while end < n and pairs.chunks[end] == chunk:
            end += np.uint64(1)
        rows = np.uint64(chunks.row_ptr[chunk + np.uint32(1)] - chunks.row_ptr[chunk])
        # a table costs some steps per row of the chunk, a search some more than it per feature of a document
        by_table = len(table) > 0 and (end - at) * np.uint64(30) > rows
        if by_table:
            lines = _fill(chunks, chunk, numbers, table)
        _rank_run(chunks, X, pairs, (at, end, by_table, scratch, (at_entry, table, lines)), rule, best)
        if by_table:
            _empty(chunks, chunk, numbers, table)
        at = end


@kernel
def prepare(X: Rows, bits: int) -> Any:
    """Numbers from 1 for the features of a batch, frequent ones first: (per name, per entry, an empty table)."""
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
    return numbers, at_entry, np.zeros((2 * n + 2, 2), np.uint32)


@tight
def _rank_named(chunks: Chunks, X: Rows, candidates: Any, scratch: Any, rule: Rule, best: Best) -> None:
    sums, found = scratch
    indptr, ids, parent_own, parent_score, owner, place = candidates
    scaled = len(chunks.scale) > 0
    for i in range(len(indptr) - 1):
        document, held = np.uint32(i), np.int64(-1)
        for c in range(indptr[i], indptr[i + 1]):
            chunk = np.uint32(owner[ids[c]])
            if chunk != held:
                for k in range(len(sums)):
                    sums[k] = np.float32(0)
                held = np.int64(chunk)
                _sum_by_search(chunks, chunk, X, document, sums, found)
            slot = np.uint64(place[ids[c]])
            total = sums[slot - np.uint64(chunks.slot_ptr[chunk])]
            margin = (total * chunks.scale[slot] if scaled else total) + chunks.bias[slot]
            _offer_slot(chunks, slot, margin, (document, parent_own[c], parent_score[c]), rule, best)


@kernel
def _by_chunk(ranked: Any, n_chunks: int, ranks: Any, rule: Rule, best: Best) -> Pairs:
    """Kept nodes of some ranks that still have a chance, as pairs sorted by chunk, documents ascending within one."""
    indptr, ids, score, own = ranked
    places = np.zeros(n_chunks + 1, np.int64)
    kept = np.zeros(len(ids), np.bool_)
    for document in range(len(indptr) - 1):
        for p in range(indptr[document] + ranks[0], min(indptr[document] + ranks[1], indptr[document + 1])):
            if not _hopeless(best, (np.uint32(document), own[p], score[p]), rule):
                kept[p] = True
                places[ids[p] + 1] += 1
    for c in range(n_chunks):
        places[c + 1] += places[c]
    n = places[n_chunks]
    made = Pairs(np.empty(n, np.uint32), np.empty(n, np.uint32), np.empty(n, np.float32), np.empty(n, np.float32))
    for document in range(len(indptr) - 1):
        for p in range(indptr[document] + ranks[0], min(indptr[document] + ranks[1], indptr[document + 1])):
            if kept[p]:
                at = places[ids[p]]
                places[ids[p]] = at + 1
                made.chunks[at], made.documents[at] = ids[p], document
                made.own[at], made.score[at] = own[p], score[p]
    return made


@kernel
def rank_level(chunks: Chunks, X: Rows, above: Any, rule: Rule, keep: int, batch: Any) -> Any:
    """(indptr, ids, score, own) of the best `keep` below the kept nodes `above` (same form, best first).

    The best parents come first: then most of the others have no chance any more.
    """
    n, n_chunks = len(X.indptr) - 1, len(chunks.slot_ptr) - 1
    best = heaps(n, keep)
    if n > 1:
        for ranks in ((0, 1), (1, 1 << 31)):
            rank_pairs(chunks, X, _by_chunk(above, n_chunks, ranks, rule, best), rule, best, batch)
    else:
        _, ids, score, own = above
        pairs = Pairs(ids.astype(np.uint32), np.zeros(len(ids), np.uint32), own, score)
        rank_pairs(chunks, X, pairs, rule, best, batch)
    return in_order(best, rule.by_own)


@kernel
def rank_named(chunks: Chunks, X: Rows, candidates: Any, rule: Rule, keep: int) -> Any:
    """The same for named candidates: (indptr, ids, parents' own and combined scores, chunk and slot of each id)."""
    best = heaps(len(X.indptr) - 1, keep)
    _rank_named(chunks, X, candidates, _scratch(chunks, X), rule, best)
    return in_order(best, rule.by_own)


def root(n_documents: int, n_chunks: int = 1) -> Any:
    """What stands above the first level: one node (or every chunk's), no score."""
    nothing = np.zeros(n_documents * n_chunks, np.float32)
    ids = np.tile(np.arange(n_chunks, dtype=np.int32), n_documents)
    return np.arange(n_documents + 1) * n_chunks, ids, nothing, nothing


NO_BATCH = (np.zeros(0, np.uint32), np.zeros(0, np.uint32), np.zeros((0, 2), np.uint32))
