"""Targets of rows: positives, relevance weights and ignored pairs, gathered on the device for a batch.

All three are csr matrices, stored on the device as flat arrays; a batch is gathered there from a short message. Asked
for static shapes, a batch is rounded up with void triples, so that a recorded step can be replayed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from treetop.core.dataset import Csr, Dataset, LabelSet
from treetop.core.types import Floats, LabelTree
from treetop.kernels.gpu.full_bce import Positives
from treetop.tensors.handover import send
from treetop.train.batches import Message, Rows

POSITIVES = 4096  # static shapes: triples are rounded up to a multiple of this


@dataclass(frozen=True, eq=False)
class Targets:
    """(row, column, value) triples of a batch; a void one has column -1 and value 0."""

    row: Tensor  # (triples,) int64
    column: Tensor  # (triples,) int64
    value: Tensor  # (triples,) float32
    n_rows: int

    def dense(self, width: int) -> Tensor:
        """(n_rows, width) float32; of several values for a place the largest counts."""
        flat = torch.zeros(self.n_rows * width, device=self.row.device)
        place = self.row * width + self.column.clamp_min(0)
        return flat.scatter_reduce_(0, place, self.value, "amax").view(self.n_rows, width)

    def mapped(self, ancestor: Tensor) -> Targets:
        """Targets of a level above: a node is as positive as its best label."""
        return replace(self, column=ancestor[self.column])

    def look_up(self, find: Callable[[Targets], Tensor]) -> Tensor:
        """What `find` makes of the triples."""
        return find(self)

    def triples(self) -> Targets:
        """All triples; values of one place add up."""
        return self


@dataclass(frozen=True, eq=False)
class MixedTargets:
    """Targets of mixed rows: share * own + (1 - share) * the partner's, wherever they are looked up."""

    own: Targets
    other: Targets
    share: Tensor  # (rows, 1)

    def dense(self, width: int) -> Tensor:
        return self.look_up(lambda targets: targets.dense(width))

    def mapped(self, ancestor: Tensor) -> MixedTargets:
        return replace(self, own=self.own.mapped(ancestor), other=self.other.mapped(ancestor))

    def look_up(self, find: Callable[[Targets], Tensor]) -> Tensor:
        return self.share * find(self.own) + (1.0 - self.share) * find(self.other)

    def triples(self) -> Targets:
        own, other, share = self.own, self.other, self.share[:, 0]
        values = own.value * share[own.row], other.value * (1.0 - share[other.row])
        row, column = torch.cat([own.row, other.row]), torch.cat([own.column, other.column])
        return Targets(row, column, torch.cat(values), own.n_rows)


class TargetRows:
    """A csr matrix on the device; `gather` gives the triples of a batch."""

    def __init__(self, matrix: Csr, device: torch.device) -> None:
        indptr = matrix.indptr.astype(np.int64)
        self.starts, self.counts = indptr[:-1], np.diff(indptr)
        # One void entry at the end, which padding points to.
        self.columns = torch.from_numpy(np.append(matrix.indices.astype(np.int64), -1)).to(device)
        self.values = torch.from_numpy(np.append(matrix.data.astype(np.float32), np.float32(0))).to(device)
        self.device = device

    def gather(self, rows: Rows) -> Targets:
        return self.targets(self.load(rows))

    def load(self, rows: Rows, static: bool = False) -> Message:
        """The message from which `targets` gathers these rows."""
        counts = self.counts[rows]
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        rounded = max(1, -(-total // POSITIVES)) * POSITIVES if static else total
        shift = np.append(self.starts[rows] - (ends - counts), 0)
        places = np.concatenate([shift, np.append(counts, rounded - total)])
        return Message({"places": send(places, self.device)}, (len(rows), rounded))

    def targets(self, message: Message) -> Targets:
        n_rows, total = cast(tuple[int, int], message.facts)
        shift, counts = torch.split(message["places"], [n_rows + 1] * 2)
        row = torch.repeat_interleave(counts, output_size=total)
        place = torch.arange(total, device=self.device) + shift[row]
        place = torch.where(row < n_rows, place, len(self.columns) - 1)
        return Targets(row.clamp_max(n_rows - 1), self.columns[place], self.values[place], n_rows)


@dataclass(frozen=True, eq=False)
class BatchTargets:
    """Targets of the rows of a batch; `ignored` pairs are neither positives nor negatives."""

    positives: Targets | MixedTargets
    relevance: Targets | None = None
    ignored: Targets | None = None

    def above(self, ancestor: Tensor) -> BatchTargets:
        """The same for the nodes of a level above the labels, which have no weights and ignore nothing."""
        return BatchTargets(self.positives.mapped(ancestor))

    def full(self) -> Positives:
        """The positives as a classifier over all labels reads them; ignored pairs weigh nothing."""
        triples = self.positives.triples()
        positives = Positives(
            triples.row, triples.column, triples.value, None if self.relevance is None else self.relevance.value
        )
        return positives if self.ignored is None else without_ignored(positives, self.ignored)


def without_ignored(positives: Positives, ignored: Targets) -> Positives:
    """The same positives, and pairs whose loss weighs nothing; a positive among these is void."""
    strength = positives.strength if positives.strength is not None else torch.ones_like(positives.target)
    void = torch.isin(_keys(positives.row, positives.column), _keys(ignored.row, ignored.column))
    return Positives(
        torch.cat([positives.row, ignored.row]),
        torch.cat([torch.where(void, -1, positives.column), ignored.column]),
        torch.cat([positives.target, torch.zeros_like(ignored.value)]),
        torch.cat([strength, torch.zeros_like(ignored.value)]),
    )


def joined(a: Targets, b: Targets) -> Targets:
    """The places of both, each once, with value 1."""
    keys = torch.unique(torch.cat([_keys(a.row, a.column), _keys(b.row, b.column)]))
    row, column = keys >> 32, keys & 0xFFFFFFFF
    return Targets(row, column, torch.ones(len(keys), device=keys.device), a.n_rows)


def _keys(row: Tensor, column: Tensor) -> Tensor:
    return (row << 32) + column


# --- nodes above the labels -----------------------------------------------------------------------------------------


def ancestors(tree: LabelTree) -> list[NDArray[np.int64]]:
    """Per level the ancestor of each label."""
    levels: list[NDArray[np.int64]] = []
    node: NDArray[np.int64] = np.arange(tree.sizes[-1])
    for parent in reversed(tree.parents):
        levels.append(node)
        node = parent[node].astype(np.int64)
    return levels[::-1]


def node_targets(Y: Csr, ancestor: NDArray[np.integer], n: int) -> Csr:
    """(rows, n) targets of the nodes above the labels: each is that of its best label."""
    rows = np.repeat(np.arange(Y.shape[0], dtype=np.int64), np.diff(Y.indptr))
    keys = rows * n + ancestor[Y.indices]
    if (Y.data == 1).all():
        pairs = np.unique(keys)
        best = np.ones(len(pairs), np.float32)
    else:
        pairs, place = np.unique(keys, return_inverse=True)
        best = np.zeros(len(pairs), np.float32)
        np.maximum.at(best, place, Y.data)
    return sparse.csr_matrix((best, np.divmod(pairs, n)), (Y.shape[0], n))


def of_clusters(dataset: Dataset, tree: LabelTree, level: int = 0) -> Dataset:
    """The same texts with a level's nodes as labels, by default the first's; each is as true as its truest label."""
    n = tree.sizes[level]
    labels = LabelSet.of([str(i) for i in range(n)])
    Y = node_targets(dataset.Y[:, : tree.sizes[-1]], ancestors(tree)[level], n)  # labels it does not have are in none
    return replace(dataset, Y=Y, labels=labels, relevance=None, filter_pairs=None)


def log_odds(Y: Csr, ancestor: NDArray[np.integer], n: int) -> Floats:
    """(n,) log of the share of rows under each node of a level; a row is as much under it as its best label there."""
    under = node_targets(Y, ancestor, n)
    share = (np.bincount(under.indices, under.data, minlength=n) + 0.5) / (Y.shape[0] + 1.0)
    return np.log(share).astype(np.float32)
