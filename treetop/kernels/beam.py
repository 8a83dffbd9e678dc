"""Scores of (document, chunk) pairs and the best few of each document: one level of a walk down a tree.

Pairs are visited chunk by chunk, so that a chunk's rows stay in the cache. Every score is one float32 sum over the
document's features in ascending order, then scale and bias: its bits depend neither on the batch nor on how a row was
found. Ties go to the lower id.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treetop.kernels.chunks import ABSENT, COPY, Chunks, entries_of, find_row, weight_at
from treetop.kernels.compile import kernel, tight
from treetop.kernels.lanes import WIDTH, add_line
from treetop.kernels.scores import OWN, PARENT, Rule, combined, lowest_margin, transformed
from treetop.kernels.sparse import F32, U32, Rows
from treetop.kernels.topk import Best, heaps, in_order, key_of, kth_largest, push, score_in

LINE = np.uint64(1 << 31)  # marks a table entry that names a vector


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
def _sum_by_search(chunks: Chunks, chunk: Any, X: Rows, document: Any, sums: F32) -> None:
    """Sums of a chunk's functions for one document, each row searched for."""
    for q in range(X.indptr[document], X.indptr[document + np.uint32(1)]):
        row = find_row(chunks, chunk, X.indices[q])
        if row:
            first, end = entries_of(chunks, chunk, row)
            x = X.values[q]
            for p in range(first, end):
                sums[chunks.slots[p]] += x * weight_at(chunks.weights, p)


@tight
def _sum_by_table(chunks: Chunks, chunk: Any, X: Rows, document: Any, sums: F32, tables: Any) -> None:
    """The same sums, rows found in a table under the batch's own feature numbers; full rows lie there as vectors."""
    names, table, lines = tables
    groups = np.uint64(lines.shape[1] // WIDTH)
    for q in range(X.indptr[document], X.indptr[document + np.uint32(1)]):
        row = np.uint64(table[names[q]])
        if row & LINE:
            add_line(lines, row ^ LINE, X.values[q], groups, sums)
        elif row:
            first, end = entries_of(chunks, chunk, row)
            x = X.values[q]
            for p in range(first, end):
                sums[chunks.slots[p]] += x * weight_at(chunks.weights, p)


@kernel
def _fill(chunks: Chunks, chunk: Any, names: U32, table: U32) -> Any:
    """Enter the rows of a chunk under the batch's own feature numbers; returns the fuller rows as vectors.

    A row with an eighth of the slots or more becomes a vector: adding x * 0 to the others changes no bit.
    """
    low, base = np.uint64(chunks.row_ptr[chunk]), np.uint64(chunks.entry_ptr[chunk])
    n = np.uint64(chunks.row_ptr[chunk + np.uint32(1)]) - low
    n_slots = np.uint64(chunks.slot_ptr[chunk + np.uint32(1)] - chunks.slot_ptr[chunk])
    full, first = np.uint64(0), np.uint64(0)
    for row in range(n):
        end = np.uint64(chunks.rows[low + row, 1])
        name = names[chunks.rows[low + row, 0]]
        if name:
            is_full = (end - first) * np.uint64(8) >= n_slots
            table[name] = np.uint32(full | LINE) if is_full else np.uint32(row + np.uint64(1))
            full += np.uint64(is_full)
        first = end
    width = (n_slots + np.uint64(WIDTH - 1)) // np.uint64(WIDTH) * np.uint64(WIDTH)
    lines = np.zeros((np.int64(full), np.int64(width)), np.float32)
    first = np.uint64(0)
    for row in range(n):
        end = np.uint64(chunks.rows[low + row, 1])
        if (end - first) * np.uint64(8) >= n_slots:
            name = names[chunks.rows[low + row, 0]]
            if name:
                line = np.uint64(table[name]) ^ LINE
                for p in range(base + first, base + end):
                    lines[line, chunks.slots[p]] = weight_at(chunks.weights, p)
        first = end
    return lines


@tight
def _empty(chunks: Chunks, chunk: Any, names: U32, table: U32) -> None:
    for row in range(np.uint64(chunks.row_ptr[chunk]), np.uint64(chunks.row_ptr[chunk + np.uint32(1)])):
        table[names[chunks.rows[row, 0]]] = np.uint32(0)


@tight
def _rank_run(chunks: Chunks, X: Rows, pairs: Pairs, run: Any, rule: Rule, best: Best) -> None:
    """The pairs of one chunk: run = (first pair, end, by table?, sums, tables)."""
    first, end, by_table, sums, tables = run
    chunk = pairs.chunks[first]
    for p in range(first, end):
        pair = (pairs.documents[p], pairs.own[p], pairs.score[p])
        if by_table:
            _sum_by_table(chunks, chunk, X, pair[0], sums, tables)
        else:
            _sum_by_search(chunks, chunk, X, pair[0], sums)
        _offer_chunk(chunks, chunk, sums, pair, rule, best)


@kernel
def rank_pairs(chunks: Chunks, X: Rows, pairs: Pairs, rule: Rule, best: Best, batch: Any) -> None:
    """Offer every function of every pair's chunk to its document; `batch` comes from `prepare`."""
    names, at_entry, table = batch
    sums = np.zeros(chunks.widest[0] + WIDTH, np.float32)
    lines = np.zeros((0, WIDTH), np.float32)
    at, n = np.uint64(0), np.uint64(len(pairs.chunks))
    while at < n:
        chunk, end = pairs.chunks[at], at
        while end < n and pairs.chunks[end] == chunk:
            end += np.uint64(1)
        rows = np.uint64(chunks.row_ptr[chunk + np.uint32(1)] - chunks.row_ptr[chunk])
        # a table costs a few steps per row of the chunk, a search some ten steps per feature of a document
        by_table = len(table) > 0 and (end - at) * np.uint64(100) > rows
        if by_table:
            lines = _fill(chunks, chunk, names, table)
        _rank_run(chunks, X, pairs, (at, end, by_table, sums, (at_entry, table, lines)), rule, best)
        if by_table:
            _empty(chunks, chunk, names, table)
        at = end


@kernel
def prepare(X: Rows, n_features: int) -> Any:
    """Numbers from 1 for the features of a batch, frequent ones first: (per feature, per entry, an empty table)."""
    first, last = X.indptr[0], X.indptr[len(X.indptr) - 1]
    names, seen = np.zeros(n_features, np.uint32), np.empty(min(last - first, np.uint64(n_features)), np.uint32)
    n = 0
    for q in range(first, last):
        f = X.indices[q]
        if names[f] == 0:
            seen[n] = f
            n += 1
        names[f] += np.uint32(1)
    counts = names[seen[:n]]
    tops = np.zeros(34, np.uint32)  # features by the number of bits of their count is order enough
    bits = np.zeros(n, np.uint8)
    for k in range(n):
        while counts[k] >> bits[k]:
            bits[k] += np.uint8(1)
        tops[32 - bits[k]] += np.uint32(1)
    total = np.uint32(1)
    for b in range(34):
        total += tops[b]
        tops[b] = total - tops[b]
    for k in range(n):
        names[seen[k]] = tops[32 - bits[k]]
        tops[32 - bits[k]] += np.uint32(1)
    at_entry = np.zeros(last, np.uint32)
    for q in range(first, last):
        at_entry[q] = names[X.indices[q]]
    return names, at_entry, np.zeros(n + 1, np.uint32)


@tight
def _rank_named(chunks: Chunks, X: Rows, candidates: Any, sums: F32, rule: Rule, best: Best) -> None:
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
                _sum_by_search(chunks, chunk, X, document, sums)
            slot = np.uint64(place[ids[c]])
            total = sums[slot - np.uint64(chunks.slot_ptr[chunk])]
            margin = (total * chunks.scale[slot] if scaled else total) + chunks.bias[slot]
            _offer_slot(chunks, slot, margin, (document, parent_own[c], parent_score[c]), rule, best)


@kernel
def by_chunk(ranked: Any, n_chunks: int, from_rank: int, to_rank: int) -> Pairs:
    """Kept nodes of some ranks as pairs sorted by chunk, documents ascending within one."""
    indptr, ids, score, own = ranked
    places = np.zeros(n_chunks + 1, np.int64)
    for document in range(len(indptr) - 1):
        for p in range(indptr[document] + from_rank, min(indptr[document] + to_rank, indptr[document + 1])):
            places[ids[p] + 1] += 1
    for c in range(n_chunks):
        places[c + 1] += places[c]
    n = places[n_chunks]
    made = Pairs(np.empty(n, np.uint32), np.empty(n, np.uint32), np.empty(n, np.float32), np.empty(n, np.float32))
    for document in range(len(indptr) - 1):
        for p in range(indptr[document] + from_rank, min(indptr[document] + to_rank, indptr[document + 1])):
            at = places[ids[p]]
            places[ids[p]] = at + 1
            made.chunks[at], made.documents[at] = ids[p], document
            made.own[at], made.score[at] = own[p], score[p]
    return made


@kernel
def rank_level(chunks: Chunks, X: Rows, above: Any, rule: Rule, keep: int, batch: Any) -> Any:
    """(indptr, ids, score, own) of the best `keep` below the kept nodes `above` (same form, best first)."""
    n = len(X.indptr) - 1
    best = heaps(n, keep)
    n_chunks = len(chunks.slot_ptr) - 1
    if n > 1:  # the best parents of all documents first: then few of the others' children are worth a look
        rank_pairs(chunks, X, by_chunk(above, n_chunks, 0, 1), rule, best, batch)
        rank_pairs(chunks, X, by_chunk(above, n_chunks, 1, 1 << 31), rule, best, batch)
    else:
        rank_pairs(chunks, X, by_chunk(above, n_chunks, 0, 1 << 31), rule, best, batch)
    return in_order(best, rule.by_own)


@kernel
def rank_named(chunks: Chunks, X: Rows, candidates: Any, rule: Rule, keep: int) -> Any:
    """The same for named candidates: (indptr, ids, parents' own and combined scores, chunk and slot of each id)."""
    best = heaps(len(X.indptr) - 1, keep)
    _rank_named(chunks, X, candidates, np.zeros(chunks.widest[0], np.float32), rule, best)
    return in_order(best, rule.by_own)


def root(n_documents: int, n_chunks: int = 1) -> Any:
    """What stands above the first level: one node (or every chunk's), no score."""
    nothing = np.zeros(n_documents * n_chunks, np.float32)
    ids = np.tile(np.arange(n_chunks, dtype=np.int32), n_documents)
    return np.arange(n_documents + 1) * n_chunks, ids, nothing, nothing


NO_BATCH = (np.zeros(0, np.uint32), np.zeros(0, np.uint32), np.zeros(0, np.uint32))
