"""The pool of labels that all queries of a batch share, and which pairs in it are positive or neither.

The pool holds some labels of each query, then hard negatives, then more labels of the queries, up to a budget. Labels
of one query that another has too are positives of both; labels with the text of a positive, and pairs that the data
bar, count for nothing. Whatever is drawn is a function of (seed, step).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from treetop.core.config import setting
from treetop.core.errors import ConfigError
from treetop.train.batches import Batch, Rows

Side = Literal["documents", "labels"]
NONE: Rows = np.zeros(0, np.int64)
MOST = 10**5  # hard negatives of a query
BLOCK = 1 << 16  # rows whose hard negatives are sifted at a time


@dataclass(frozen=True, kw_only=True)
class PoolConfig:
    """Which queries and labels meet in a batch."""

    size: int = setting(3000, "maximum labels per pool; 0: all labels", low=0)
    positives: int = setting(3, "positives sampled per query, with replacement; 0: all", low=0, high=10**4)
    hard_negatives: int = setting(6, "hard negatives sampled per query", low=0, high=10**4)
    mine_depth: int = setting(100, "nearest labels retrieved per query when mining hard negatives", low=1, high=MOST)
    stored_negatives: int = setting(
        0, "hard negatives stored per query; 0: as many as are sampled until the next mining", low=0
    )
    min_free: int = setting(0, "add hard negatives only if more than this many places in the pool are free", low=0)
    fill: bool = setting(True, "fill up the pool: with the queries' other positives, or with all labels if it has room")
    mine_from: int = setting(5, "epoch from which queries are clustered and hard negatives mined", low=0)
    mine_every: int = setting(5, "epochs between two rounds of clustering and mining", low=1)
    clustered: bool = setting(True, "build mini-batches from clusters of similar queries; false: at random")
    cluster_size: int = setting(0, "queries per cluster; 0: one cluster per mini-batch", low=0)
    curriculum: tuple[int, ...] = setting((), "epochs at which `cluster_size` doubles (curriculum)")
    queries: Side = setting("documents", "queries of a mini-batch: texts, or labels with one text sampled for each")

    def __post_init__(self) -> None:
        if self.kept > MOST:
            raise ConfigError(
                f"stored_negatives: {self.stored_negatives} with hard_negatives={self.hard_negatives} and "
                f"mine_every={self.mine_every} stores {self.kept:,} hard negatives per query. "
                f"At most {MOST:,} are allowed; lower stored_negatives."
            )

    @property
    def kept(self) -> int:
        """Hard negatives remembered for each query."""
        return (self.stored_negatives or self.hard_negatives * self.mine_every) if self.hard_negatives else 0

    def due(self, epoch: int) -> bool:
        """Whether clusters and negatives are recomputed before this epoch."""
        wanted = self.clustered or self.hard_negatives > 0
        return wanted and epoch >= self.mine_from and (epoch - self.mine_from) % self.mine_every == 0

    def splits(self, n: int, batch: int, epoch: int) -> int:
        """How often `n` queries are halved into clusters."""
        size = self.cluster_size << sum(epoch >= at for at in self.curriculum) if self.cluster_size else batch
        return max(0, int(math.log2(max(1.0, n / size))))


@dataclass(frozen=True)
class PoolTargets:
    """Positives of every document (csr) and ignored pairs (csr); `text` numbers labels by their text."""

    n_labels: int
    indptr: Rows
    indices: Rows
    values: NDArray[np.float32]
    ignored_indptr: Rows | None = None
    ignored_indices: Rows | None = None
    text: Rows | None = None  # (n_labels,) the first label of the same text, -1 where a text is its own

    def only(self, rows: Rows) -> PoolTargets:
        """The same with positives of these documents alone."""
        counts = np.zeros(len(self.indptr) - 1, np.int64)
        counts[rows] = np.diff(self.indptr)[rows]
        place = stretch(self.indptr, np.flatnonzero(counts))[1]
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        return replace(self, indptr=indptr, indices=self.indices[place], values=self.values[place])


@dataclass(frozen=True)
class PoolBatch(Batch):
    """A batch with its pool. Positives and ignored pairs are flat indices into the (everyone x pool) matrix.

    `rows` are as many in every process: beyond the end of `everyone` the first row is used as padding without weight.
    Split, it stays whole: each part computes gradients for its share of the texts (see `network/pool.py`).
    """

    pool: Rows
    positive: Rows
    value: NDArray[np.float32]
    ignored: Rows
    part: int = 0
    parts: int = 1

    def split(self, parts: int, size: int = 1) -> Iterator[Batch]:
        for part in range(parts):
            yield replace(self, part=part, parts=parts)


class Pools:
    """Draws the pool of a batch and says which pairs are positive and which are ignored."""

    def __init__(self, known: PoolTargets, config: PoolConfig, seed: int) -> None:
        self.known, self.config, self.seed = known, config, seed
        self._place = np.full(known.n_labels, -1, np.int64)  # scratch: position of a label in the pool
        self._documents: tuple[Rows, Rows] | None = None

    def batch(self, queries: Rows, negatives: NDArray[np.int32], step: int, rank: int, size: int) -> PoolBatch:
        """The batch of these queries (documents, or labels); `negatives` are the hard ones of all documents.

        Whatever the number of processes, `everyone` and all that is drawn is the same.
        """
        rng = np.random.default_rng([self.seed, 4, step])
        if self.config.queries == "labels":
            rows, drawn = self._draw_documents(queries, rng), queries
        else:
            rows, drawn = queries, self.draw_positives(queries, rng)
        hard = draw_negatives(negatives[rows], self.config.hard_negatives, rng)
        pool = self.fill(rows, drawn, hard)
        positive, value, ignored = self.pairs(rows, pool)
        return PoolBatch(even_share(rows, rank, size), rows, len(rows), step, pool, positive, value, ignored)

    def draw_positives(self, rows: Rows, rng: np.random.Generator) -> Rows:
        """Labels of the rows, `positives` of each with replacement; all where that is 0."""
        known, count = self.known, self.config.positives
        if count == 0:
            return known.indices[stretch(known.indptr, rows)[1]]
        counts = known.indptr[rows + 1] - known.indptr[rows]
        place = known.indptr[rows][:, None] + (rng.random((len(rows), count)) * counts[:, None]).astype(np.int64)
        return known.indices[place[counts > 0].ravel()]

    def _draw_documents(self, labels: Rows, rng: np.random.Generator) -> Rows:
        """One document for each label, each once."""
        if self._documents is None:
            self._documents = transposed(self.known)
        indptr, rows = self._documents
        counts = indptr[labels + 1] - indptr[labels]
        place = indptr[labels] + (rng.random(len(labels)) * counts).astype(np.int64)
        return np.unique(rows[place[counts > 0]])

    def fill(self, rows: Rows, drawn: Rows, hard: Rows) -> Rows:
        """The pool, ascending: drawn labels, then hard negatives, then further labels of the rows.

        What more rows share comes first; each kind only as far as the budget has room. A budget for all labels is used
        up, unless nothing is to be filled up.
        """
        budget = self.config.size
        if budget == 0 or (budget >= self.known.n_labels and self.config.fill):
            return np.arange(self.known.n_labels, dtype=np.int64)
        pool = most_shared(drawn)[:budget]
        if budget - len(pool) > self.config.min_free:
            pool = _joined(pool, hard, budget)
        if self.config.fill and len(pool) < budget:
            pool = _joined(pool, self.known.indices[stretch(self.known.indptr, rows)[1]], budget)
        return np.sort(pool)

    def pairs(self, rows: Rows, pool: Rows) -> tuple[Rows, NDArray[np.float32], Rows]:
        """(places of positives, their weights, places of ignored pairs) in the rows x pool matrix."""
        known, width = self.known, len(pool)
        self._place[pool] = np.arange(width)
        owner, at = stretch(known.indptr, rows)
        labels = known.indices[at]
        column = self._place[labels]
        inside = column >= 0
        positive = owner[inside] * width + column[inside]
        ignored = NONE
        if known.ignored_indptr is not None and known.ignored_indices is not None:
            others, place = stretch(known.ignored_indptr, rows)
            column = self._place[known.ignored_indices[place]]
            ignored = (others * width + column)[column >= 0]
        if known.text is not None:
            ignored = np.concatenate([ignored, _twins(owner, known.text[labels], known.text[pool])])
        self._place[pool] = -1
        ignored = np.setdiff1d(ignored, positive) if len(ignored) else ignored
        return positive, known.values[at[inside]], ignored


# --- the parts of a pool --------------------------------------------------------------------------------------------


def stretch(indptr: Rows, rows: Rows) -> tuple[Rows, Rows]:
    """(which of `rows` owns it, place) of every entry of these rows of a csr matrix."""
    return _between(indptr[rows], indptr[rows + 1])


def even_share(ids: Rows, rank: int, size: int) -> Rows:
    """The part of `ids` that a process reads, equally long in every process: padded with the first id."""
    count = -(-len(ids) // size)
    share = ids[rank * count : (rank + 1) * count]
    return np.concatenate([share, np.full(count - len(share), ids[0])])


def transposed(known: PoolTargets) -> tuple[Rows, Rows]:
    """(indptr over labels, documents of each)."""
    owner = np.repeat(np.arange(len(known.indptr) - 1), np.diff(known.indptr))
    order = np.argsort(known.indices, kind="stable")
    counts = np.bincount(known.indices, minlength=known.n_labels)
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]), owner[order]


def most_shared(ids: Rows) -> Rows:
    """Each id once, the most frequent first, ties by id."""
    found, counts = np.unique(ids, return_counts=True)
    return found[np.argsort(-counts, kind="stable")]


def draw_negatives(lists: NDArray[np.int32], count: int, rng: np.random.Generator) -> Rows:
    """`count` of each row's list without replacement; lists are padded with -1."""
    count = min(count, lists.shape[1])
    if count == 0:
        return NONE
    noise = np.where(lists >= 0, rng.random(lists.shape), 2.0)
    place = np.argpartition(noise, count - 1, axis=1)[:, :count]
    found = np.take_along_axis(lists, place, axis=1).ravel().astype(np.int64)
    return found[found >= 0]


def without_positives(found: Tensor, rows: Rows, known: PoolTargets, keep: int) -> Tensor:
    """(rows, keep) int32 the first of each row's labels that are neither positive nor ignored there.

    Labels with the text of such a label are left out too; rows are padded with -1.
    """
    text = torch.arange(known.n_labels)
    if known.text is not None:
        own = torch.from_numpy(known.text)
        text = torch.where(own >= 0, own, text)
    text = text.to(found.device)
    kept = found.new_full((len(rows), keep), -1, dtype=torch.int32)
    for start in range(0, len(rows), BLOCK):
        part = slice(start, start + BLOCK)
        likely = found[part].to(torch.int64)
        taken = [_keys(known.indptr, known.indices, rows[part], text)]
        if known.ignored_indptr is not None and known.ignored_indices is not None:
            taken.append(_keys(known.ignored_indptr, known.ignored_indices, rows[part], text))
        beyond = text.new_full((1,), len(likely) * len(text))  # no key is that large
        excluded = torch.cat([*taken, beyond]).sort().values
        owner = torch.arange(len(likely), device=text.device)[:, None]
        keys = owner * len(text) + text[likely.clamp_min(0)]
        good = (excluded[torch.searchsorted(excluded, keys)] != keys) & (likely >= 0)
        place = good.cumsum(1) - 1
        good &= place < keep
        kept[part][owner.expand_as(good)[good], place[good]] = likely[good].to(torch.int32)
    return kept


def _keys(indptr: Rows, indices: Rows, rows: Rows, text: Tensor) -> Tensor:
    """One number for each entry of these rows of a csr matrix: of its row and of its label's text."""
    owner, place = stretch(indptr, rows)
    row, label = (torch.from_numpy(array).to(text.device) for array in (owner, indices[place]))
    return row * len(text) + text[label]


def _joined(pool: Rows, more: Rows, budget: int) -> Rows:
    fresh = most_shared(more[~np.isin(more, pool)])
    return np.concatenate([pool, fresh[: budget - len(pool)]])


def _twins(owner: Rows, texts: Rows, pool_texts: Rows) -> Rows:
    """Places (owner x pool) of labels whose text is that of a positive; of both -1 means a text of its own."""
    order = np.argsort(pool_texts, kind="stable")
    held = pool_texts[order]
    owner, texts = owner[texts >= 0], texts[texts >= 0]
    low, high = np.searchsorted(held, texts), np.searchsorted(held, texts, side="right")
    entry, place = _between(low, high)
    return np.unique(owner[entry] * len(pool_texts) + order[place])


def _between(low: Rows, high: Rows) -> tuple[Rows, Rows]:
    """(which range, number) of every number of the ranges low to high."""
    counts = high - low
    entry = np.repeat(np.arange(len(low)), counts)
    return entry, low[entry] + np.arange(len(entry)) - np.repeat(np.cumsum(counts) - counts, counts)
