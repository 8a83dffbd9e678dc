"""What levels learn from: positives on the device, pairs that count for nothing, and the node above each label."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from treetop.core.dataset import Csr, Dataset, LabelSet
from treetop.core.types import LabelTree
from treetop.evaluate.match import hits
from treetop.kernels.full_bce import Positives
from treetop.train.batches import TargetRows, Targets


def target_rows(Y: Csr, device: torch.device) -> TargetRows:
    """A csr matrix on the device."""
    return TargetRows(Y.indptr.astype(np.int64), Y.indices, Y.data, device)


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


def of_clusters(dataset: Dataset, tree: LabelTree) -> Dataset:
    """The same texts with the first level's nodes as labels; each is as true as its truest label."""
    n = tree.sizes[0]
    labels = LabelSet.of([str(i) for i in range(n)])
    Y = node_targets(dataset.Y, tree.parents[1], n)
    return replace(dataset, Y=Y, labels=labels, relevance=None, filter_pairs=None)


def barred_rows(dataset: Dataset, device: torch.device) -> TargetRows | None:
    """Pairs that are neither positives nor negatives."""
    pairs = dataset.filter_pairs
    if pairs is None or len(pairs) == 0:
        return None
    order = np.argsort(pairs[:, 0], kind="stable")
    counts = np.bincount(pairs[:, 0], minlength=len(dataset))
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    return TargetRows(indptr, pairs[order, 1], np.ones(len(pairs), np.float32), device)


def with_barred(positives: Positives, barred: Targets) -> Positives:
    """The same positives, and pairs whose loss weighs nothing; a positive among these is void."""
    strength = positives.strength if positives.strength is not None else torch.ones_like(positives.target)
    void = torch.isin(_keys(positives.row, positives.column), _keys(barred.row, barred.column))
    return Positives(
        torch.cat([positives.row, barred.row]),
        torch.cat([torch.where(void, -1, positives.column), barred.column]),
        torch.cat([positives.target, torch.zeros_like(barred.value)]),
        torch.cat([strength, torch.zeros_like(barred.value)]),
    )


def joined(a: Targets, b: Targets) -> Targets:
    """The places of both, each once, with value 1."""
    keys = torch.unique(torch.cat([_keys(a.row, a.column), _keys(b.row, b.column)]))
    row, column = keys >> 32, keys & 0xFFFFFFFF
    return Targets(row, column, torch.ones(len(keys), device=keys.device), a.n_rows)


def _keys(row: Tensor, column: Tensor) -> Tensor:
    return (row << 32) + column


def mean_precision(top: NDArray[np.integer], Y: Csr) -> float:
    """Mean of P@1, P@3 and P@5 of the (rows, k) labels `top`, in percent."""
    hit = hits(top, Y)
    return float(np.mean([hit[:, :n].sum(1).mean() / n for n in (1, 3, 5)]) * 100)


def ancestors(tree: LabelTree) -> list[NDArray[np.int64]]:
    """Per level the node each label lies under."""
    made: list[NDArray[np.int64]] = []
    node: NDArray[np.int64] = np.arange(tree.sizes[-1])
    for parent in reversed(tree.parents):
        made.append(node)
        node = parent[node].astype(np.int64)
    return made[::-1]
