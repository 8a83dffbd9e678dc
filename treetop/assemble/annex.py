"""Learners of AnnexML from data: a graph of texts with like labels, clusters that keep it, and a map for each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treetop.core import deadline
from treetop.core.dataset import Csr
from treetop.core.log import logger, progress
from treetop.core.store import Part
from treetop.core.work import Job
from treetop.kernels.annex.clusters import best_clusters, learn_clusters
from treetop.kernels.annex.embedding import Learning, learn_map, unit_projections
from treetop.kernels.annex.search import Learner, linked
from treetop.kernels.cluster.halving import SMALL_GAIN, Options, balanced_leaves
from treetop.kernels.runtime import threads
from treetop.kernels.search.neighbours import nearest
from treetop.kernels.sparse import rows_of
from treetop.labels.pifa import unit_rows
from treetop.rank.embedded import learner_part

MOST = 10_000  # texts of a label that others are compared with
MIXED = 5  # neighbours that a text is averaged with
RATE = 0.1  # learning rate of the classifiers


def label_graph(Y: Csr, k: int, seed: int, most: int = MOST) -> NDArray[np.int32]:
    """(texts, k) the texts whose labels are most alike by cosine, ties at random; -1 where fewer share a label.

    Of a label that more than `most` texts have, `most` drawn at random are compared with: the graph is approximate.
    """
    n = Y.shape[0]
    order = np.random.default_rng(seed).permutation(n)  # the first of equals wins, so rows are mixed
    mixed = unit_rows(Y[order].tocsr())
    index = mixed.tocsc()
    index.sort_indices()
    place = np.arange(index.nnz) - np.repeat(index.indptr[:-1], np.diff(index.indptr))
    index.data[place >= most] = 0
    index.eliminate_zeros()
    triples = [
        (m.indptr.astype(np.int64), m.indices.astype(np.int32), m.data.astype(np.float32)) for m in (mixed, index)
    ]
    found, _ = nearest(triples[0], triples[1], n, min(k + 1, n))
    found[found == np.arange(n)[:, None]] = -1
    found = np.take_along_axis(found, np.argsort(found < 0, axis=1, kind="stable"), 1)[:, :k]
    graph = np.full((n, k), -1, np.int32)
    graph[order, : found.shape[1]] = np.where(found >= 0, order[found], -1)
    return graph


def smoothed_clusters(X: Csr, graph: NDArray[np.int32], depth: int, seed: int) -> NDArray[np.int32]:
    """(texts,) 2 ** depth clusters of one size, of texts averaged with some of their neighbours drawn at random."""
    n = X.shape[0]
    drawn = np.random.default_rng(seed).permuted(graph, axis=1)[:, :MIXED]
    rows, there = np.repeat(np.arange(n), drawn.shape[1]), drawn.ravel() >= 0
    ones = np.ones(int(there.sum()), np.float32)
    beside = sparse.csr_matrix((ones, (rows[there], drawn.ravel()[there])), (n, n))
    Z = unit_rows((X + beside @ X).tocsr().astype(np.float32))
    return balanced_leaves(Z, depth, seed=seed, options=Options(rule=SMALL_GAIN))


def learn(
    X: Csr, Y: Csr, *, learners: int, cluster_size: int, neighbours: int, degree: int, cluster_epochs: int,
    learning: Learning, job: Job,
) -> list[Part]:  # fmt: skip
    """Independent learners as parts; the graph, all classifiers and each learner are resumable stages."""
    rows, n_features = rows_of(X), X.shape[1]
    depth = max(0, int(np.ceil(np.log2(max(X.shape[0], 1) / cluster_size))))
    seeds = [(job.seed * 1_000_003 + 1009 * (m + 1)) & 0x7FFFFFFF for m in range(learners)]
    made = job.stage(
        "label-graph", lambda: Part("stage.label_graph.1", {}, {"graph": label_graph(Y, neighbours, job.seed)})
    )
    graph = made.arrays["graph"]

    def classifiers() -> Part:
        targets = [smoothed_clusters(X, graph, depth, seed) for seed in seeds]
        shape = n_features, 1 << depth
        found = threads.run(
            lambda m, _: learn_clusters(rows, targets[m], shape, np.uint64(seeds[m]), cluster_epochs, RATE),
            threads.blocks(learners, 1),
        )
        arrays = {f"W-{m}": W.astype(np.float16) for m, (W, _) in enumerate(found)}
        return Part("stage.clusters.1", {}, arrays | {f"penalty-{m}": even for m, (_, even) in enumerate(found)})

    weights = job.stage("clusters", classifiers).arrays
    parts = []
    with progress("learners", learners) as bar:
        for m, seed in enumerate(seeds):
            deadline.check(f"learner-{m:02d}")
            classifier = weights[f"W-{m}"].astype(np.float32), weights[f"penalty-{m}"]
            task = partial(_learner, X, graph, classifier, seed, degree, learning)
            parts.append(job.stage(f"learner-{m:02d}", partial(_learner_part, task)))
            bar.step(1)
    return parts


def _learner_part(train: Callable[[], Learner]) -> Part:
    """A learner, trained, as data."""
    return learner_part(train())


def _learner(X: Csr, graph: Any, classifier: tuple[Any, Any], seed: int, degree: int, how: Learning) -> Learner:
    """Maps, vectors and graphs of all clusters of one learner, clusters on the thread pool."""
    assigned, n_clusters = best_clusters(rows_of(X), *classifier), len(classifier[1])
    random = np.random.default_rng(seed)
    members = [random.permutation(np.flatnonzero(assigned == c)) for c in range(n_clusters)]
    sizes = np.array([len(docs) for docs in members])
    kept = (assigned[graph] == assigned[:, None])[graph >= 0].mean() if (graph >= 0).any() else 0.0
    logger.info(
        "%d clusters of %d to %d texts, with %.0f %% of the neighbours",
        n_clusters,
        sizes.min(),
        sizes.max(),
        100 * kept,
    )
    found = threads.run(
        lambda c, _: _cluster(X, graph, members[c], seed + c, degree, how), threads.blocks(n_clusters, 1)
    )
    features, maps, vectors, ptrs, links = zip(*found, strict=True)
    starts = np.cumsum([0, *(len(part) for part in links)])
    return Learner(
        *classifier,
        np.cumsum([0, *(len(part) for part in features)]).astype(np.int64),
        np.concatenate(features).astype(np.int32),
        np.concatenate(maps),
        np.cumsum([0, *sizes]).astype(np.int64),
        np.concatenate(members).astype(np.int32),
        np.concatenate(vectors),
        np.concatenate([np.zeros(1, np.int64), *(ptr[1:] + s for ptr, s in zip(ptrs, starts, strict=False))]),
        np.concatenate(links),
    )


def _cluster(X: Csr, graph: Any, docs: Any, seed: int, degree: int, how: Learning) -> Any:
    """(features, map, vectors, pointers, links) of one cluster; its texts in the order of `docs`."""
    here = X[docs].tocsc()
    features = np.flatnonzero(np.diff(here.indptr))
    rows = rows_of(sparse.csr_matrix(here[:, features]))
    place = np.full(X.shape[0], -1, np.int64)
    place[docs] = np.arange(len(docs))
    near = np.where(graph[docs] >= 0, place[graph[docs]], -1)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum((near >= 0).sum(1))]).astype(np.int64)
    V = learn_map(rows, ends, near[near >= 0].astype(np.int64), len(features), np.uint64(seed), how)
    V = V.astype(np.float16).astype(np.float32)  # as it is stored
    vectors = unit_projections(rows, V).astype(np.float16).astype(np.float32)
    return features, V, vectors, *linked(vectors, degree)
