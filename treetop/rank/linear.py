"""Linear functions in chunks: one weight vector per node or label, siblings scored together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treetop.core.abilities import Gradient, HasGradient, HasLabelVectors, HasParents, RanksSiblings, WalksAllLevels
from treetop.core.dataset import Csr, Ints
from treetop.core.errors import ModelError
from treetop.core.part_checks import distinct, floats, whole
from treetop.core.store import Part
from treetop.core.types import Candidates, Join, Level, Ranking, Shortlist, View, check_view
from treetop.kernels.runtime import threads
from treetop.kernels.search.topk import largest
from treetop.kernels.sparse import Rows, rows_of
from treetop.kernels.tree import beam, chunk_sums, chunks, products, scores
from treetop.kernels.tree.chunks import Chunks

BLOCK = 8192  # documents that walk down together, at most
MANY = 2048  # documents worth sharing out
CHUNKS = 1 << 12  # whose weights are measured at a time
FEW = 50  # below, rows are found by search instead of a table
STORAGE = {"float32": "<f4", "float16": "<u2", "int8": "|i1"}
SLOTS = {1: "|u1", 2: "<u2", 4: "<u4"}


class Linear(WalksAllLevels, RanksSiblings, HasGradient, HasLabelVectors):
    """Margins w.x + b of nodes grouped by parent; `Chunks` defines the memory layout of the weights."""

    kind: ClassVar[str] = "rank.linear.1"

    def __init__(self, weights: Chunks, n_features: int) -> None:
        self.weights, self.n_features = chunks.sealed(weights), n_features
        self.n = len(weights.ids)
        self._asked: tuple[Any, bool] = (None, False)  # a shortlist, and whether its siblings are the chunks

    @property
    def n_chunks(self) -> int:
        return len(self.weights.slot_ptr) - 1

    @cached_property
    def _homes(self) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """(chunk, slot) of every node."""
        slot_ptr, ids = self.weights.slot_ptr, self.weights.ids
        owner, place = np.empty(self.n, np.uint32), np.empty(self.n, np.uint32)
        owner[ids] = np.repeat(np.arange(self.n_chunks, dtype=np.uint32), np.diff(slot_ptr))
        place[ids] = np.arange(self.n, dtype=np.uint32)
        return owner, place

    def rank(self, view: View, candidates: Candidates, join: Join, keep: int) -> Ranking:
        keep = min(keep, self.n)
        if candidates.ids is None:
            above = beam.root(view.shape[0], self.n_chunks)
            return self._level(self._rows(view), above, rule_of(join, first=True), keep)
        return self.rank_given(view, candidates, join, keep)

    def rank_given(self, view: View, candidates: Candidates, join: Join, keep: int) -> Ranking:
        """The best `keep` of candidates that are named; one that is named twice is there twice."""
        X = self._rows(view)
        named = (candidates.indptr, candidates.ids, candidates.parent_own, candidates.parent_score, *self._homes)
        return Ranking(*beam.rank_given(self.weights, X, named, rule_of(join, first=False), keep))

    def below(self, view: View, shortlist: Shortlist, above: Ranking, join: Join, keep: int) -> Ranking | None:
        """The best children of the nodes `above` when the shortlist's siblings are the chunks; else None.

        The result is that of `rank` on all children, bit for bit, without naming each of them.
        """
        if not self._has_chunks_of(shortlist) or int(above.ids.max(initial=-1)) >= self.n_chunks:
            return None
        ranked = (above.indptr, above.ids, above.score, above.own)
        return self._level(self._rows(view), ranked, rule_of(join, first=False), min(keep, self.n))

    def _has_chunks_of(self, shortlist: Shortlist) -> bool:
        known, answer = self._asked
        if known is not shortlist:
            w = self.weights
            answer = (
                isinstance(shortlist, HasParents)
                and np.array_equal(shortlist.indptr, w.slot_ptr)
                and np.array_equal(shortlist.children, w.ids)
            )
            self._asked = (shortlist, answer)
        return answer

    def _level(self, X: Rows, above: Any, rule: scores.Rule, keep: int) -> Ranking:
        """One level below ranked nodes, blocks of documents on all threads."""

        def block(start: int, stop: int) -> Ranking:
            indptr, *rest = above
            here = slice(int(indptr[start]), int(indptr[stop]))
            rows, ranked = _block(X, start, stop), (indptr[start : stop + 1] - here.start, *(a[here] for a in rest))
            batch = _prepared(rows, stop - start, self)
            return Ranking(*beam.rank_level(self.weights, rows, ranked, rule, keep, batch))

        return Ranking.concat(threads.run(block, _shares(len(X.indptr) - 1)))

    def walk(self, levels: Sequence[Level], view: View, k: int) -> Ranking | None:
        """All levels of a member in one walk when they are linear and read the same view; else None.

        The result is that of the level-by-level loop, bit for bit.
        """
        ranks: list[Any] = [level.rank for level in levels]
        first = levels[0].view
        if not all(isinstance(r, Linear) and lv.view == first for r, lv in zip(ranks, levels, strict=True)):
            return None
        above = [1, *(rank.n for rank in ranks)]
        if any(lv.keep_by != "score" or r.n_chunks != n for r, lv, n in zip(ranks, levels, above, strict=False)):
            return None
        X = self._rows(view)
        keeps = [level.beam for level in levels[:-1]] + [k]
        plan = [
            (r, rule_of(lv.join, first=t == 0), keeps[t]) for t, (r, lv) in enumerate(zip(ranks, levels, strict=True))
        ]
        parts = threads.run(lambda a, b: _walk(plan, _block(X, a, b), b - a), _shares(view.shape[0]))
        return Ranking.concat(parts)

    def gradient(self, view: Csr, node: int) -> Gradient:
        w = self.weights
        owner, place = self._homes
        chunk, slot = int(owner[node]), int(place[node])
        within, columns, places = slot - int(w.slot_ptr[chunk]), [], []
        for column in view.indices.tolist():
            a, b = chunks.entries(w, chunk, column)
            for p in a + np.flatnonzero(w.slots[a:b] == within):
                columns.append(column)
                places.append(p)
        order = np.argsort(columns, kind="stable")
        weights = _plain(self.weights, np.array(places, np.int64)[order], slot)
        copied = bool(w.flags[slot] == chunks.COPY)
        return Gradient(weights, float(w.bias[slot]), np.array(columns, np.int64)[order], copied)

    def vector(self, node: int) -> Csr:
        """(1, features) the weights of a node."""
        w, (owner, place) = self.weights, self._homes
        chunk, slot = int(owner[node]), int(place[node])
        features, entries = chunks.features_of(w, chunk, slot - int(w.slot_ptr[chunk]))
        known = features < self.n_features
        features, weights = features[known], _plain(self.weights, entries[known], slot)
        row = sparse.csr_matrix((weights, features, [0, len(features)]), (1, self.n_features))
        row.sort_indices()
        return row

    def bias_of(self, node: int) -> float:
        """The constant part of a node's margin."""
        return float(self.weights.bias[self._homes[1][node]])

    def without(self, nodes: Ints) -> Linear:
        """The same functions, of which some are never returned."""
        flags = np.array(self.weights.flags)
        flags[self._homes[1][nodes]] = chunks.ABSENT
        return Linear(self.weights._replace(flags=flags, special=np.flatnonzero(flags)), self.n_features)

    @classmethod
    def of(cls, functions: Csr, bias: NDArray[np.float32], storage: str) -> Linear:
        """Functions given as rows of weights, each in a chunk of its own."""
        n, n_features = functions.shape
        scratch = np.zeros(n_features, np.uint32), np.zeros(n_features // 64 + 1, np.uint64)
        pieces = [
            chunks.piece(
                (
                    np.array([stop - start], np.uint32), functions.indices[start:stop].astype(np.uint32),
                    functions.data[start:stop],
                ), scratch, n_features, 1,
            )
            for start, stop in pairwise(functions.indptr.tolist())
        ]  # fmt: skip
        slots, flags = (np.arange(n + 1, dtype=np.int64), np.arange(n, dtype=np.int32)), np.zeros(n, np.uint8)
        return cls(chunks.stored_as(chunks.pack(slots, bias, flags, pieces, n_features), storage), n_features)

    def by_node(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        """(pointers, features, weights) of all nodes, features ascending: the rows of a csr matrix over nodes."""
        w, parts = self.weights, []
        for chunk in range(self.n_chunks):
            features, here = chunks.features_in(w, chunk), slice(int(w.entry_ptr[chunk]), int(w.entry_ptr[chunk + 1]))
            slot = np.minimum(int(w.slot_ptr[chunk]) + w.slots[here].astype(np.int64), self.n - 1)
            plain = chunks.plain_weights(w.weights[here])
            weights = plain * w.scale[slot] if len(w.scale) else plain
            known = features < self.n_features
            parts.append((w.ids[slot[known]], features[known], weights[known]))
        node, features, weights = (np.concatenate(side) for side in zip(*parts, strict=True))
        order = np.lexsort((features, node))
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(node, minlength=self.n))])
        return indptr, features[order], weights[order]

    def similar(self, vector: Csr, keep: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        length = self._lengths * np.float32(np.linalg.norm(vector.data))
        products_ = products.products(self.weights, vector.indices, vector.data)
        cosine = products_ / np.where(length > 0, length, np.float32(np.inf))
        best = largest(cosine, self.weights.ids, keep)
        return self.weights.ids[best].astype(np.int64), cosine[best].astype(np.float32)

    @cached_property
    def _lengths(self) -> NDArray[np.float32]:
        """(n,) the length of each slot's weights."""
        w, n = self.weights, self.n
        squares = np.zeros(n)
        for start, stop in threads.blocks(self.n_chunks, CHUNKS):
            here = slice(int(w.entry_ptr[start]), int(w.entry_ptr[stop]))
            first = np.repeat(w.slot_ptr[start:stop], np.diff(w.entry_ptr[start : stop + 1]))
            plain = chunks.plain_weights(w.weights[here]).astype(np.float64)
            squares += np.bincount(np.minimum(first + w.slots[here], n - 1), plain**2, minlength=n)
        lengths = np.sqrt(squares)
        return (lengths * w.scale if len(w.scale) else lengths).astype(np.float32)

    def _rows(self, view: View) -> Rows:
        check_view(self.kind, view, self.n_features, dense=False)
        return rows_of(view)

    def to_part(self) -> Part:
        w = self.weights
        storage = next(name for name, code in STORAGE.items() if np.dtype(code) == w.weights.dtype)
        config = {"n_features": self.n_features, "storage": storage, "slot_bytes": w.slots.dtype.itemsize}
        arrays = {name: array for name, array in w._asdict().items() if name not in {"sizes", "special"}}
        return Part(self.kind, config, arrays)

    @classmethod
    def from_part(cls, part: Part) -> Any:
        n_features, storage = whole(part, "n_features", 0), part.setting("storage", str)
        width = whole(part, "slot_bytes", 1)
        if storage not in STORAGE or width not in SLOTS:
            raise ModelError(f"{part.kind}: storage '{storage}' with slots of {width} bytes is unknown.")
        n = len(part.array("ids", "<i4", None))
        n_rows, n_entries = len(part.array("lows", "<u2", None)), len(part.array("slots", SLOTS[width], None))
        n_buckets = len(part.array("buckets", "<u4", None, 2))
        n_chunks = len(part.array("slot_ptr", "<i8", None)) - 1
        slot_ptr = part.pointers("slot_ptr", n_chunks + 1, n)
        flags = part.indices("flags", "|u1", n, 3)
        weights = Chunks(
            np.array([np.diff(slot_ptr).max(initial=0), chunks.name_bits(n_features)], np.int64),
            np.flatnonzero(flags),
            slot_ptr,
            distinct(part, "ids", n, n),
            floats(part, "bias", n),
            flags,
            floats(part, "scale", n if storage == "int8" else 0),
            part.array("shifts", "|u1", n_chunks),
            part.pointers("bucket_ptr", n_chunks + 1, n_buckets),
            part.array("buckets", "<u4", n_buckets, 2),
            part.pointers("row_ptr", n_chunks + 1, n_rows),
            part.array("lows", "<u2", n_rows),
            part.array("counts", SLOTS[width], n_rows),
            part.pointers("entry_ptr", n_chunks + 1, n_entries),
            part.array("slots", SLOTS[width], n_entries),
            floats(part, "weights", n_entries, dtype=STORAGE[storage]),
        )
        if not chunks.sound(weights):
            raise ModelError(
                f"{part.kind}: buckets do not fit {n_features} features. The model is damaged; copy it again."
            )
        return cls(weights, n_features)


def _plain(weights: Chunks, entries: NDArray[np.int64], slot: int) -> NDArray[np.float32]:
    """Weights of some entries of a slot as float32."""
    plain = chunks.plain_weights(weights.weights[entries])
    return plain * weights.scale[slot] if len(weights.scale) else plain


@cache
def rule_of(join: Join, *, first: bool) -> scores.Rule:
    """A join in the kernels' numbers; on the first level there is no parent to combine with."""
    name = join.transform.removeprefix("log_")
    kind = {"noop": scores.NOOP, "sigmoid": scores.SIGMOID}.get(name, scores.HINGE)
    power = int(name[-1]) if kind == scores.HINGE else 1
    combine = scores.OWN if first else {"own": scores.OWN, "parent": scores.PARENT, "path": scores.PATH}[join.combine]
    return scores.Rule(kind, power, join.adds, combine, False)


def _shares(n: int) -> list[tuple[int, int]]:
    """Equal blocks, so many that all threads work to the end; a document's result does not depend on its block."""
    lanes = threads.count() if n >= MANY else 1
    rounds = max(1, -(-n // (lanes * BLOCK)))
    return threads.blocks(n, max(1, -(-n // (lanes * rounds))))


def _block(X: Rows, start: int, stop: int) -> Rows:
    return Rows(X.indptr[start : stop + 1], X.indices, X.values)


def _prepared(X: Rows, n: int, rank: Linear) -> Any:
    """What `n` documents that walk together look features up in."""
    return chunk_sums.prepare(X, int(rank.weights.sizes[1])) if n > FEW else chunk_sums.NO_BATCH


def _walk(plan: Sequence[tuple[Linear, scores.Rule, int]], X: Rows, n: int) -> Ranking:
    """One block of documents down all levels."""
    batch = _prepared(X, n, plan[0][0])
    ranked = beam.root(n)
    for rank, rule, keep in plan:
        ranked = beam.rank_level(rank.weights, X, ranked, rule, min(keep, rank.n), batch)
    return Ranking(*ranked)
