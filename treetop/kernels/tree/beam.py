"""One level of beam search down a tree: scores of (document, chunk) pairs, and the best few of each document.

Pairs are visited chunk by chunk, so that a chunk's rows stay in the cache. Every score is one float32 sum over the
document's features in ascending order, then scale and bias: its bits depend neither on the batch nor on how rows are
looked up. Ties go to the lower id.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treetop.kernels.linear.lanes import WIDTH
from treetop.kernels.runtime.compile import kernel, tight
from treetop.kernels.runtime.prefetch import prefetch
from treetop.kernels.search.topk import Best, heaps, in_order, key_of, kth_largest, push, score_in
from treetop.kernels.sparse import F32, U32, Rows
from treetop.kernels.tree.chunk_sums import fill_table, fits_table, new_scratch, sum_by_search, sum_by_table
from treetop.kernels.tree.chunks import ABSENT, COPY, Chunks
from treetop.kernels.tree.scores import OWN, PARENT, Rule, combined, lowest_margin, transformed


class Pairs(NamedTuple):
    """(document, chunk) pairs sorted by chunk, with the parent's scores."""

    chunks: U32
    documents: U32
    own: F32
    score: F32


@tight
def _margin_to_enter(best: Best, pair: Any, rule: Rule, margins: F32, n: Any) -> Any:
    """The lowest margin with which a child of this pair may still be among the best."""
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
    """Whether no child of this pair can be among the best, as a path's score never exceeds that of its parent."""
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
    """Scale and bias applied to the sums: the one place where margins are computed."""
    if len(scale):
        for k in range(n):
            sums[k] *= scale[first + k]
    for k in range(n):
        sums[k] += bias[first + k]


@tight
def _count_above(values: F32, first: Any, end: Any, cut: Any) -> Any:
    """The number of values that reach `cut`; counted without branches, so that the loop is vectorised."""
    count = np.int32(0)
    for k in range(first, end):
        count += np.int32(values[k] >= cut)
    return count


@tight
def _offer_chunk(chunks: Chunks, chunk: Any, sums: F32, pair: Any, rule: Rule, best: Best) -> None:
    """Offer the classifiers of a chunk that may be among the best; `sums` is reset to zero."""
    first = np.uint64(chunks.slot_ptr[chunk])
    n = np.uint64(chunks.slot_ptr[chunk + np.uint32(1)]) - first
    _to_margins(sums, first, n, chunks.scale, chunks.bias)
    special = len(chunks.special) > 0
    cut = np.float32(-np.inf) if special else _margin_to_enter(best, pair, rule, sums, n)
    for group in range(np.uint64(0), n, np.uint64(WIDTH)):
        end = min(group + np.uint64(WIDTH), n)
        if _count_above(sums, group, end, cut):
            for k in range(group, end):
                if sums[k] >= cut:
                    _offer_slot(chunks, first + k, sums[k], pair, rule, best)
    for k in range(n):
        sums[k] = np.float32(0)


@tight
def _rank_run(chunks: Chunks, X: Rows, pairs: Pairs, run: Any, rule: Rule, best: Best) -> None:
    """Rank the pairs of one chunk: run = (first pair, end, whether by table, scratch, tables)."""
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
            sum_by_table(chunks, chunk, X, pair[0], sums, tables)
        else:
            sum_by_search(chunks, chunk, X, pair[0], sums, found)
        _offer_chunk(chunks, chunk, sums, pair, rule, best)


@kernel
def rank_pairs(chunks: Chunks, X: Rows, pairs: Pairs, rule: Rule, best: Best, batch: Any) -> None:
    """Offer every classifier of a pair's chunk to its document, for all pairs; `batch` comes from `prepare`."""
    numbers, at_entry, table = batch
    scratch = new_scratch(chunks, X)
    lines = np.zeros((0, WIDTH), np.float32)
    at, n = np.uint64(0), np.uint64(len(pairs.chunks))
    while at < n:
        chunk, end = pairs.chunks[at], at
        while end < n and pairs.chunks[end] == chunk:
            end += np.uint64(1)
        rows = np.uint64(chunks.row_ptr[chunk + np.uint32(1)] - chunks.row_ptr[chunk])
        # a table costs a few steps per row of the chunk, a search more steps per feature of each document
        by_table = (end - at) * np.uint64(30) > rows and fits_table(chunks, chunk, table)
        if by_table:
            lines = fill_table(chunks, chunk, numbers, table)
        _rank_run(chunks, X, pairs, (at, end, by_table, scratch, (at_entry, table, lines)), rule, best)
        at = end


@tight
def _rank_given(chunks: Chunks, X: Rows, candidates: Any, scratch: Any, rule: Rule, best: Best) -> None:
    sums, found = scratch
    indptr, ids, parent_own, parent_score, owner, place = candidates
    scaled = len(chunks.scale) > 0
    for i in range(len(indptr) - 1):
        document, current = np.uint32(i), np.int64(-1)
        for c in range(indptr[i], indptr[i + 1]):
            chunk = np.uint32(owner[ids[c]])
            if chunk != current:
                for k in range(len(sums)):
                    sums[k] = np.float32(0)
                current = np.int64(chunk)
                sum_by_search(chunks, chunk, X, document, sums, found)
            slot = np.uint64(place[ids[c]])
            total = sums[slot - np.uint64(chunks.slot_ptr[chunk])]
            margin = (total * chunks.scale[slot] if scaled else total) + chunks.bias[slot]
            _offer_slot(chunks, slot, margin, (document, parent_own[c], parent_score[c]), rule, best)


@kernel
def _by_chunk(ranked: Any, n_chunks: int, ranks: Any, rule: Rule, best: Best) -> Pairs:
    """Nodes `above` at some ranks whose children may be among the best: pairs sorted by chunk, then by document."""
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
    pairs = Pairs(np.empty(n, np.uint32), np.empty(n, np.uint32), np.empty(n, np.float32), np.empty(n, np.float32))
    for document in range(len(indptr) - 1):
        for p in range(indptr[document] + ranks[0], min(indptr[document] + ranks[1], indptr[document + 1])):
            if kept[p]:
                at = places[ids[p]]
                places[ids[p]] = at + 1
                pairs.chunks[at], pairs.documents[at] = ids[p], document
                pairs.own[at], pairs.score[at] = own[p], score[p]
    return pairs


@kernel
def rank_level(chunks: Chunks, X: Rows, above: Any, rule: Rule, keep: int, batch: Any) -> Any:
    """(indptr, ids, score, own) of the best `keep` below the kept nodes `above` (same form, best first).

    The best parent of each document comes first: after it, most of the others can be skipped.
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
def rank_given(chunks: Chunks, X: Rows, candidates: Any, rule: Rule, keep: int) -> Any:
    """The same for given candidates: (indptr, ids, parents' own and combined scores, chunk and slot of each id)."""
    best = heaps(len(X.indptr) - 1, keep)
    _rank_given(chunks, X, candidates, new_scratch(chunks, X), rule, best)
    return in_order(best, rule.by_own)


def root(n_documents: int, n_chunks: int = 1) -> Any:
    """The parent of the first level: one node (or one per chunk) with score 0."""
    zeros = np.zeros(n_documents * n_chunks, np.float32)
    ids = np.tile(np.arange(n_chunks, dtype=np.int32), n_documents) if n_chunks > 1 else np.zeros(n_documents, np.int32)
    return np.arange(n_documents + 1) * n_chunks, ids, zeros, zeros
