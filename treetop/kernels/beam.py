"""Scores of (document, chunk) pairs and the best few of each document: one level of a walk down a tree.

Pairs are visited chunk by chunk, so that a chunk's rows stay in the cache. Every score is one float32 sum over the
document's features in ascending order, then scale and bias: its bits depend neither on the batch nor on how a row was
found. Ties go to the lower id.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treetop.kernels.chunks import ABSENT, COPY, Chunks, Ints, find_row, weight_at
from treetop.kernels.compile import kernel, tight
from treetop.kernels.lanes import WIDTH, add_line
from treetop.kernels.sparse import F32, U32, Rows

NOOP, SIGMOID, HINGE = 0, 1, 2
OWN, PARENT, PATH = 0, 1, 2
LINE = np.uint64(1 << 31)  # marks a table entry that names a vector


class Rule(NamedTuple):
    """How a margin becomes a score: transform (with a power), multiply or add, with which score of the parent."""

    transform: int
    power: int
    adds: bool
    combine: int
    by_own: bool  # the best are chosen by their own score instead of the combined one


class Pairs(NamedTuple):
    """(document, chunk) pairs sorted by chunk, with the parent's scores."""

    chunks: U32
    documents: U32
    own: F32
    score: F32


class Best(NamedTuple):
    """Per document a heap of the best so far, the worst on top: a key of (score, id) as one number, and the other score."""

    size: NDArray[np.int32]
    keys: Any  # (n_documents, keep) uint64, larger is better
    other: Any  # (n_documents, keep)
    spare: F32  # (keep,) scratch


@tight
def key_of(score: Any, id_: Any) -> Any:
    """A number that grows with the score and, for equal scores, falls with the id."""
    bits = np.uint64(np.float32(score + np.float32(0)).view(np.uint32))  # adding 0 makes -0 a 0
    bits ^= np.uint64(0xFFFFFFFF) if bits & np.uint64(0x80000000) else np.uint64(0x80000000)
    return (bits << np.uint64(32)) | (np.uint64(0xFFFFFFFF) - np.uint64(id_))


@tight
def id_in(key: Any) -> Any:
    """The id of a key."""
    return np.int32(np.uint64(0xFFFFFFFF) - (key & np.uint64(0xFFFFFFFF)))


@tight
def score_in(key: Any) -> Any:
    """The score of a key."""
    bits = key >> np.uint64(32)
    bits ^= np.uint64(0x80000000) if bits & np.uint64(0x80000000) else np.uint64(0xFFFFFFFF)
    return np.uint32(bits).view(np.float32)


@tight
def transformed(margin: Any, rule: Rule) -> Any:
    """The own score of a margin, worked out in float64."""
    if rule.transform == NOOP:
        return margin
    if rule.transform == SIGMOID:
        x = float(margin)
        log = -np.log1p(np.exp(-x)) if x > 0.0 else x - np.log1p(np.exp(x))
    else:
        gap = max(0.0, 1.0 - float(margin))
        log = gap
        for _ in range(rule.power - 1):
            log *= gap
        log = -log
    return np.float32(log if rule.adds else np.exp(log))


@tight
def combined(own: Any, parent_own: Any, parent_score: Any, rule: Rule) -> Any:
    """The own score joined with the parent's, as the rule says."""
    if rule.combine == OWN:
        return own
    parent = parent_own if rule.combine == PARENT else parent_score
    return own + parent if rule.adds else own * parent


@tight
def _log2_below(x: Any) -> Any:
    """At most log2(x), and at most 0.087 less, for a normal x > 0: the exponent and mantissa read as one number."""
    return np.float32(np.int64(np.float32(x).view(np.int32)) - np.int64(127 << 23)) * np.float32(2.0**-23)


@tight
def _exp2_above(y: Any) -> Any:
    """At least 2 ** y, and at most 7 % more, for y of normal size."""
    return np.int32((max(y, np.float32(-100)) + np.float32(127)) * np.float32(2.0**23)).view(np.float32)


@tight
def _cut(worst: Any, parent: Any, rule: Rule) -> Any:
    """A margin below which no candidate of this parent can reach `worst`; on the low side, so that none is lost."""
    if rule.transform == NOOP:
        return worst
    if rule.adds:
        log = worst - parent
        log -= np.float32(1e-4) * (abs(worst) + abs(parent)) + np.float32(1e-4)
    elif worst > np.float32(1e-30) and parent > np.float32(1e-30):
        log = np.float32(0.6931472) * (_log2_below(worst) - _log2_below(parent) - np.float32(0.09))
    else:
        return np.float32(-np.inf)  # near underflow: look at every candidate
    if rule.transform == SIGMOID:
        return log - np.float32(1e-4)  # sigmoid(m) < exp(m)
    # a gap g below the margin 1 gives the log score -g ** power
    log = min(log, np.float32(-1e-3))
    return np.float32(1) - _exp2_above((_log2_below(-log) + np.float32(0.09)) / np.float32(rule.power))


@tight
def push(size: Any, keys: Any, others: Any, document: Any, key: Any, other: Any) -> None:
    """Offer a candidate to a document's heap. (Plain arrays: taking them out of a tuple here would count references.)"""
    n, keep = np.uint32(size[document]), np.uint32(keys.shape[1])
    if n < keep:
        at = n
        size[document] = n + np.uint32(1)
        while at > 0:
            up = (at - np.uint32(1)) >> np.uint32(1)
            if keys[document, up] <= key:
                break
            keys[document, at], others[document, at] = keys[document, up], others[document, up]
            at = up
    elif keep == 0 or key <= keys[document, 0]:
        return
    else:
        at = np.uint32(0)
        while True:
            down = np.uint32(2) * at + np.uint32(1)
            if down >= n:
                break
            if down + np.uint32(1) < n and keys[document, down + np.uint32(1)] < keys[document, down]:
                down += np.uint32(1)
            if keys[document, down] >= key:
                break
            keys[document, at], others[document, at] = keys[document, down], others[document, down]
            at = down
    keys[document, at], others[document, at] = key, other


@tight
def _kth_largest(values: F32, n: Any, heap: F32) -> Any:
    """The k-th largest of values[:n], by a heap of k."""
    k, size = np.uint32(len(heap)), np.uint32(0)
    for i in range(n):
        value = values[i]
        if size < k:
            at = size
            size += np.uint32(1)
            while at > 0 and heap[(at - np.uint32(1)) >> np.uint32(1)] > value:
                heap[at] = heap[(at - np.uint32(1)) >> np.uint32(1)]
                at = (at - np.uint32(1)) >> np.uint32(1)
            heap[at] = value
        elif value > heap[0]:
            at = np.uint32(0)
            while True:
                down = np.uint32(2) * at + np.uint32(1)
                if down >= k:
                    break
                if down + np.uint32(1) < k and heap[down + np.uint32(1)] < heap[down]:
                    down += np.uint32(1)
                if heap[down] >= value:
                    break
                heap[at] = heap[down]
                at = down
            heap[at] = value
    return heap[0]


@tight
def _lowest(best: Best, pair: Any, rule: Rule, margins: F32, n: Any) -> Any:
    """The margin a candidate of this pair needs to be worth a closer look."""
    document, parent_own, parent_score = pair
    keep = best.keys.shape[1]
    if best.size[document] < keep or keep == 0:
        # margins of one parent order like its scores, up to rounding, which may make neighbours equal
        return _kth_largest(margins, n, best.spare) - np.float32(1e-3) if 0 < keep < n else np.float32(-np.inf)
    parent = np.float32(0 if rule.adds else 1)
    if rule.combine != OWN and not rule.by_own:
        parent = parent_own if rule.combine == PARENT else parent_score
    return _cut(score_in(best.keys[document, 0]), parent, rule)


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
    """Sums of a chunk's functions for one document, rows found by binary search."""
    low, high = chunks.row_ptr[chunk], chunks.row_ptr[chunk + np.uint32(1)]
    base = np.uint64(chunks.entry_ptr[chunk])
    for q in range(X.indptr[document], X.indptr[document + np.uint32(1)]):
        row = find_row(chunks.features, low, high, X.indices[q])
        if row >= 0:
            x = X.values[q]
            first = np.uint32(0) if row == low else chunks.ends[np.uint64(row - 1)]
            for p in range(base + np.uint64(first), base + np.uint64(chunks.ends[np.uint64(row)])):
                sums[chunks.slots[p]] += x * weight_at(chunks.weights, p)


@tight
def _sum_by_table(chunks: Chunks, chunk: Any, X: Rows, document: Any, sums: F32, tables: Any) -> None:
    """The same sums, rows found in a table under the batch's own feature numbers; full rows lie there as vectors."""
    names, table, lines = tables
    low = np.uint64(chunks.row_ptr[chunk])
    base = np.uint64(chunks.entry_ptr[chunk])
    groups = np.uint64(lines.shape[1] // WIDTH)
    for q in range(X.indptr[document], X.indptr[document + np.uint32(1)]):
        row = np.uint64(table[names[q]])
        if row & LINE:
            add_line(lines, row ^ LINE, X.values[q], groups, sums)
        elif row:
            x = X.values[q]
            first = np.uint64(0) if row == np.uint64(1) else np.uint64(chunks.ends[low + row - np.uint64(2)])
            for p in range(base + first, base + np.uint64(chunks.ends[low + row - np.uint64(1)])):
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
        end = np.uint64(chunks.ends[low + row])
        name = names[chunks.features[low + row]]
        if name:
            table[name] = np.uint32(row + np.uint64(1))
            full += np.uint64((end - first) * np.uint64(8) >= n_slots)
        first = end
    width = (n_slots + np.uint64(WIDTH - 1)) // np.uint64(WIDTH) * np.uint64(WIDTH)
    lines = np.zeros((np.int64(full), np.int64(width)), np.float32)
    full, first = np.uint64(0), np.uint64(0)
    for row in range(n):
        end = np.uint64(chunks.ends[low + row])
        if (end - first) * np.uint64(8) >= n_slots:
            name = names[chunks.features[low + row]]
            if name:
                for p in range(base + first, base + end):
                    lines[full, chunks.slots[p]] = weight_at(chunks.weights, p)
                table[name] = np.uint32(full | LINE)
                full += np.uint64(1)
        first = end
    return lines


@tight
def _empty(chunks: Chunks, chunk: Any, names: U32, table: U32) -> None:
    for row in range(np.uint64(chunks.row_ptr[chunk]), np.uint64(chunks.row_ptr[chunk + np.uint32(1)])):
        table[names[chunks.features[row]]] = np.uint32(0)


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
def rank_ids(chunks: Chunks, X: Rows, candidates: Any, rule: Rule, best: Best) -> None:
    """Offer named candidates: (indptr, ids, parents' own and combined scores, chunk and slot of every function)."""
    _rank_named(chunks, X, candidates, np.zeros(chunks.widest[0], np.float32), rule, best)


@kernel
def in_order(best: Best, by_own: bool) -> Any:
    """(indptr, ids, score, own) of every heap, by combined score, then id."""
    n = len(best.size)
    indptr = np.zeros(n + 1, np.int64)
    for document in range(n):
        indptr[document + 1] = indptr[document] + best.size[document]
    ids = np.empty(indptr[n], np.int32)
    score, own = np.empty(indptr[n], np.float32), np.empty(indptr[n], np.float32)
    for document in range(n):
        first = indptr[document]
        for k in range(best.size[document]):
            at, key = first + k, best.keys[document, k]
            chosen, other, id_ = score_in(key), best.other[document, k], id_in(key)
            total, alone = (other, chosen) if by_own else (chosen, other)
            while at > first and (score[at - 1] < total or (score[at - 1] == total and ids[at - 1] > id_)):
                ids[at], score[at], own[at] = ids[at - 1], score[at - 1], own[at - 1]
                at -= 1
            ids[at], score[at], own[at] = id_, total, alone
    return indptr, ids, score, own


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


def heaps(n_documents: int, keep: int) -> Best:
    """Empty heaps."""
    shape = (n_documents, keep)
    return Best(np.zeros(n_documents, np.int32), np.empty(shape, np.uint64), np.empty(shape, np.float32), np.empty(keep, np.float32))


def roots(n_documents: int, n_chunks: int = 1) -> Pairs:
    """Every document with every chunk, no parents."""
    chunks = np.repeat(np.arange(n_chunks, dtype=np.uint32), n_documents)
    documents = np.tile(np.arange(n_documents, dtype=np.uint32), n_chunks)
    nothing = np.zeros(len(chunks), np.float32)
    return Pairs(chunks, documents, nothing, nothing)
