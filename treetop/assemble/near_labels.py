"""Precomputed shortlists: a text's positive labels, then the nearest others (as in DeepXML)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from treetop.core.dataset import Csr, Dataset
from treetop.core.types import Floats, Level, Ranking
from treetop.kernels.search import products
from treetop.predict.beam import step
from treetop.rank.head import Head

Ids = NDArray[np.int32]
BLOCK = 4_096  # texts whose near labels are held at a time


@dataclass(frozen=True, eq=False)
class Positives:
    """The positive labels of each row, highest target first: a shortlist that is too short drops the lowest."""

    Y: Csr  # (rows, labels) the columns of a row in this order, not ascending
    relevance: Csr | None  # in the same order
    ignored: NDArray[np.int64]  # row * labels + label of pairs that are neither positives nor negatives

    @classmethod
    def of(cls, dataset: Dataset) -> Positives:
        Y, n, ignored = dataset.Y, dataset.n_labels, dataset.ignored
        keys = np.zeros(0, np.int64) if ignored is None else _keys(ignored)
        rows = np.repeat(np.arange(len(dataset), dtype=np.int64), np.diff(Y.indptr))
        kept = np.flatnonzero((Y.data > 0) & ~np.isin(rows * n + Y.indices, keys))
        kept = kept[np.lexsort((Y.indices[kept], -Y.data[kept], rows[kept]))]
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows[kept], minlength=len(dataset)))])

        def ordered(matrix: Csr) -> Csr:
            return sparse.csr_matrix((matrix.data[kept], matrix.indices[kept], indptr), matrix.shape)

        return cls(ordered(Y), None if dataset.relevance is None else ordered(dataset.relevance), keys)


def _keys(matrix: Csr) -> NDArray[np.int64]:
    """Row * columns + column of every entry."""
    rows = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
    return rows * matrix.shape[1] + matrix.indices


def nearest(H: Floats, level: Level, device: torch.device) -> Ranking:
    """The labels nearest to each vector, nearest first.

    On the CPU by the level's own search; on a GPU by exact search, which is faster there, without labels that have no
    texts.
    """
    if device.type == "cpu" or not isinstance(level.rank, Head):
        blocks = [H[start : start + BLOCK] for start in range(0, len(H), BLOCK)]
        return Ranking.concat([step(level, {level.view: block}, None, level.beam) for block in blocks])
    return nearest_of_all(H, level.rank, level.beam, device)


def nearest_of_all(H: Floats, head: Head, keep: int, device: torch.device) -> Ranking:
    """The nearest labels by exact search over all that have texts."""
    with_texts = np.flatnonzero(np.isfinite(head.bias))
    queries, table = (torch.from_numpy(np.ascontiguousarray(x)).to(device) for x in (H, head.weight[with_texts]))
    score, rows = (x.cpu().numpy() for x in products.best(queries, table, keep))
    indptr = np.arange(len(H) + 1, dtype=np.int64) * rows.shape[1]
    return Ranking(indptr, with_texts[rows].astype(np.int32).ravel(), score.ravel(), score.ravel())


def shortlists(positives: Positives, near: Ranking, width: int) -> Ids:
    """(rows, width) labels of each row: its positives first, then the nearest ones; padded with -1."""
    Y = positives.Y
    n_rows, n = Y.shape
    positive_rows = np.repeat(np.arange(n_rows, dtype=np.int64), np.diff(Y.indptr))
    near_rows = np.repeat(np.arange(n_rows, dtype=np.int64), np.diff(near.indptr))
    excluded = np.concatenate([positive_rows * n + Y.indices, positives.ignored])
    negative = ~np.isin(near_rows * n + near.ids, excluded)
    n_positives = np.diff(Y.indptr).astype(np.int64)
    lists = np.full((n_rows, width), -1, np.int32)
    for rows, ids, start in (
        (positive_rows, Y.indices, np.zeros(n_rows, np.int64)),
        (near_rows[negative], near.ids[negative], n_positives),
    ):
        column = start[rows] + _index_in_row(rows, n_rows)
        fits = column < width
        lists[rows[fits], column[fits]] = ids[fits]
    return lists


def _index_in_row(rows: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Index of each entry within its row; `rows` is ascending."""
    counts = np.bincount(rows, minlength=n)
    return np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
