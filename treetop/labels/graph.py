"""Label graphs: co-occurrence shares, random walks, and label representations smoothed over them.

A graph is a matrix G (labels x labels), float32, with one row for every label. Only documents may be counted: label
texts and synthetic rows say nothing about how often labels occur.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treetop.core.config import setting
from treetop.core.dataset import Csr, Dataset
from treetop.kernels.graph.cooccurrence import BLOCK, Rule, shares
from treetop.kernels.graph.walks import visited
from treetop.kernels.runtime import threads
from treetop.kernels.sparse import csr_of, rows_of
from treetop.kernels.sums import unit_sums

# Fitted to made-up data (benchmarks/speed/graph.py): seconds of one core for each pair counted and each entry sorted.
PAIR, ENTRY = 7e-9, 8e-8
RUNS, RUN = 64, 16  # labels of a forecast: so many runs of neighbouring columns
MARGIN = 1.25
WORDS = 1000  # of a label that others are described by: the weightiest hold 99 % of its length


@dataclass(frozen=True, kw_only=True)
class ShareConfig:
    """Which labels are neighbours (Gandalf)."""

    delta: float = setting(0.1, "threshold on the co-occurrence probability P(other label | label)", low=0.0, high=1.0)
    shrinkage: float = setting(
        0.0, "shrinkage: added to the label frequency in the denominator of P(other label | label)", low=0
    )


@dataclass(frozen=True, kw_only=True)
class WalkConfig:
    """Random walks with restart between labels and texts (ECLARE, CascadeXML)."""

    hops: int = setting(400, "walk length in hops (label to text to label)", low=1, high=10**6)
    restart: float = setting(0.8, "restart probability", low=0.0, high=1.0)
    neighbours: int = setting(10, "neighbours kept per label", low=1, high=10**4)
    head_threshold: int = setting(0, "exclude head labels with more texts than this from the walks; 0: none", low=0)


class Needs(NamedTuple):
    """What a graph needs: bytes besides the targets, seconds on this machine, entries."""

    memory: float
    time: float
    entries: float


class Neighbour(NamedTuple):
    """A label that shares texts with another: how many, and as fractions of either label's texts."""

    column: int
    texts: int
    share: float  # P(this | the label asked about)
    back: float  # P(the label asked about | this)


def counted(dataset: Dataset) -> Csr:
    """The targets that graphs are counted from: documents only, without excluded pairs and stored zeros; all 1."""
    documents = np.flatnonzero(dataset.documents)
    Y = (dataset.Y if len(documents) == len(dataset) else dataset.Y[documents]).copy()
    if dataset.filter_pairs is not None and len(dataset.filter_pairs):
        place = np.full(len(dataset), -1, np.int64)
        place[documents] = np.arange(len(documents))
        rows, columns = place[dataset.filter_pairs[:, 0]], dataset.filter_pairs[:, 1]
        excluded = rows[rows >= 0] * Y.shape[1] + columns[rows >= 0]
        keys = np.repeat(np.arange(Y.shape[0], dtype=np.int64), np.diff(Y.indptr)) * Y.shape[1] + Y.indices
        Y.data[np.isin(keys, excluded)] = 0
    Y.data = (Y.data > 0).astype(np.float32)
    Y.eliminate_zeros()
    return Y


def share_graph(Y: Csr, config: ShareConfig, *, symmetric: bool = False) -> Csr:
    """G[j, l] = P(l | j), the share of j's texts that have l, where strictly above `delta`; 1 on the diagonal.

    Symmetric: the mean of P(l | j) and P(j | l) (GLaS). A label without texts is its own only neighbour.
    """
    rule = Rule(config.delta, config.shrinkage, symmetric)
    return csr_of(shares(rows_of(Y.T.tocsr()), rows_of(Y), rule), Y.shape[1])


def share_needs(Y: Csr, config: ShareConfig, *, symmetric: bool = False) -> Needs:
    """A forecast of `share_graph`, from a sample of the labels."""
    n, lengths = Y.shape[1], np.diff(Y.indptr).astype(np.float64)
    texts, labels, rule = rows_of(Y.T.tocsr()), rows_of(Y), Rule(config.delta, config.shrinkage, symmetric)
    runs = threads.blocks(n, RUN)
    chosen = np.random.default_rng(0).permutation(len(runs))[:RUNS].tolist()
    entries_ = [len(shares(texts, labels, rule, *runs[i]).indices) for i in chosen]
    sampled = sum(runs[i][1] - runs[i][0] for i in chosen)
    entries = MARGIN * sum(entries_) / max(sampled, 1) * n
    workers = min(threads.count(), -(-n // BLOCK)) or 1
    # Targets read the other way, scratch of every thread, entries in blocks and joined.
    memory = 16.0 * Y.nnz + 16.0 * n + workers * 8.0 * n + 16.0 * entries
    seconds = PAIR * float((lengths**2).sum()) + ENTRY * entries
    return Needs(memory, seconds / workers, entries)


def neighbours(Y: Csr, label: int, k: int = 10) -> list[Neighbour]:
    """The `k` labels that most of a label's texts have too, the rarer of equals first."""
    texts = Y[:, [label]].tocsc().indices
    both = np.bincount(Y[texts].indices, minlength=Y.shape[1])
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    both[label] = 0
    others = np.flatnonzero(both)
    order = others[np.lexsort((others, counts[others], -both[others]))][:k]
    n_texts = max(1, len(texts))
    return [Neighbour(int(c), int(both[c]), float(both[c] / n_texts), float(both[c] / counts[c])) for c in order]


def _walks(Y: Csr, config: WalkConfig, seed: int) -> Csr:
    """Visits of a walk from each label (labels x labels), the most visited only."""
    n = Y.shape[1]
    if config.head_threshold:
        few = np.bincount(Y.indices, minlength=n) <= config.head_threshold
        Y = (Y @ sparse.diags(few.astype(np.float32))).tocsr()
        Y.eliminate_zeros()
    ids, visits = visited(
        rows_of(Y.T.tocsr()), rows_of(Y), hops=config.hops, restart=config.restart, keep=config.neighbours, seed=seed
    )
    rows = np.repeat(np.arange(n), config.neighbours)
    return sparse.csr_matrix((visits.ravel().astype(np.float32), (rows, ids.ravel())), (n, n))


def walk_graph(Y: Csr, config: WalkConfig, *, seed: int) -> Csr:
    """G (labels x labels): visits of a walk from each label, itself always among them, scaled by both degrees."""
    G = _walks(Y, config, seed)
    G = G + sparse.diags((G.diagonal() == 0).astype(np.float32))
    out, into = (1.0 / np.sqrt(np.asarray(G.sum(axis)).ravel()) for axis in (1, 0))
    normalised: Csr = (sparse.diags(out) @ G @ sparse.diags(into)).tocsr().astype(np.float32)
    normalised.eliminate_zeros()
    normalised.sort_indices()
    return normalised


def node_graph(G: Csr, node: NDArray[np.integer], n: int) -> Csr:
    """(n, n) the graph of nodes that labels lie under: the links of their labels added up, scaled by both degrees."""
    under = sparse.csr_matrix((np.ones(len(node), np.float32), (node, np.arange(len(node)))), (n, len(node)))
    graph: Csr = (under @ G @ under.T).tocsr()
    out, into = (1.0 / np.sqrt(np.maximum(np.asarray(graph.sum(axis)).ravel(), 1e-12)) for axis in (1, 0))
    graph = (sparse.diags(out) @ graph @ sparse.diags(into)).tocsr().astype(np.float32)
    graph.sort_indices()
    return graph


def links(G: Csr) -> int:
    """How many labels are linked to another one."""
    return int((np.diff(G.indptr) > 1).sum())


def walk_shares(Y: Csr, config: WalkConfig, *, seed: int) -> Csr:
    """G (labels x labels): visits of a walk from each label as shares of its most visited one; 1 on the diagonal."""
    G = _walks(Y, config, seed)
    G.eliminate_zeros()
    most = np.maximum(np.asarray(G.max(axis=1).todense()).ravel(), 1.0)
    G = (sparse.diags(1.0 / most) @ G).tocsr()
    shares_: Csr = (G + sparse.diags(1.0 - G.diagonal())).tocsr().astype(np.float32)
    shares_.sort_indices()
    return shares_


def smoothed(Z: Csr, G: Csr, words: int = WORDS) -> Csr:
    """G Z with unit rows: a label is represented by its own texts and those of linked labels.

    Of each label its weightiest `words` count. A label over half of all texts has nearly all words there are, and would
    hand them to every label it goes with.
    """
    return csr_of(unit_sums(rows_of(G), rows_of(_weightiest(Z, words)), Z.shape[1]), Z.shape[1])


def _weightiest(Z: Csr, most: int) -> Csr:
    """The `most` largest values of each row, in the row's order."""
    kept = np.ones(Z.nnz, np.bool_)
    for row in np.flatnonzero(np.diff(Z.indptr) > most):
        values = Z.data[Z.indptr[row] : Z.indptr[row + 1]]
        kept[Z.indptr[row] + np.argpartition(-values, most)[most:]] = False
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])
    return sparse.csr_matrix((Z.data[kept], Z.indices[kept], ends[Z.indptr]), Z.shape)
