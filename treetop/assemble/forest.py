"""A forest over documents from data: trees in resumable groups, gains of labels, and their centroids."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treetop.core import deadline
from treetop.core.config import setting
from treetop.core.dataset import Csr, Dataset
from treetop.core.log import progress
from treetop.core.store import Part
from treetop.core.work import Job
from treetop.evaluate.propensity import inverse_propensity
from treetop.kernels.forest.grow import Plan, Tree, grow, new_scratch
from treetop.kernels.forest.walk import Centroids, Trees
from treetop.kernels.linear.l1_logistic import Rules
from treetop.kernels.runtime import threads
from treetop.kernels.sparse import rows_of
from treetop.labels.pifa import unit_rows

TOGETHER = 8  # trees of a stage


@dataclass(frozen=True, kw_only=True)
class TreeConfig:
    """How trees over documents are grown."""

    max_leaf: int = setting(10, "documents of a leaf: a node of more is split", low=1)
    max_depth: int = setting(60, "levels of a tree at most", low=1, high=1000)
    cost: float = setting(3.0, "cost C of the separators' logistic loss, beside their L1 norm", low=1e-6)
    balance: bool = setting(True, "weight the sides of a node so that both cost the same")
    bias: float = setting(1.0, "value of the constant feature; 0: no bias", low=0.0)
    threshold: float = setting(0.01, "prune weights with a smaller magnitude", low=0.0)
    rounds: int = setting(1, "how often the sides of a node and its separator are found in turn", low=1)
    passes: int = setting(50, "updates of rankings and sides in a round, at most", low=1)
    eps: float = setting(0.1, "stopping tolerance of the separator's solver", low=1e-6)

    @property
    def plan(self) -> Plan:
        """The same for the kernels."""
        return Plan(
            self.max_leaf, self.max_depth, self.cost, self.balance, self.bias, self.threshold, self.rounds, self.passes,
            Rules(eps=self.eps),
        )  # fmt: skip


def label_gains(dataset: Dataset, kind: Literal["propensity", "ones"]) -> NDArray[np.float32]:
    """(labels,) what a hit earns: 1, or 1 / the label's propensity by the constants of the data set."""
    if kind == "ones":
        return np.ones(dataset.n_labels, np.float32)
    weights = inverse_propensity(dataset.label_counts, int(dataset.documents.sum()), *dataset.propensity)
    return weights.astype(np.float32)


def grow_trees(X: Csr, Y: Csr, gain: NDArray[np.float32], config: TreeConfig, n_trees: int, job: Job) -> Trees:
    """Trees over the rows of X, which have the labels Y; each `TOGETHER` of them are one resumable stage."""
    discount = 1.0 / np.log2(np.arange(Y.shape[1] + 1) + 2.0)
    ideal = np.concatenate([np.zeros(1), 1.0 / np.cumsum(discount)]).astype(np.float32)[np.diff(Y.indptr)]
    earned = sparse.csr_matrix((Y.data * gain[Y.indices], Y.indices, Y.indptr), Y.shape)
    task = rows_of(X), rows_of(earned), ideal, discount

    def group(first: int, end: int) -> Part:
        trees = threads.run(lambda a, b: one(first + a), threads.blocks(end - first, 1))
        return Part(
            "stage.trees.1",
            {},
            {f"{t}-{name}": a for t, tree in enumerate(trees) for name, a in tree._asdict().items()},
        )

    def one(number: int) -> Tree:
        seed = np.uint64((job.seed * 1_000_003 + number) & 0xFFFFFFFFFFFF)
        tree = grow(*task, seed, config.plan, new_scratch(X.shape[1], Y.shape[1]))
        bar.step(1)
        return tree

    trees: list[Tree] = []
    with progress("trees", n_trees) as bar:
        for first, end in threads.blocks(n_trees, TOGETHER):
            name = f"trees-{first:04d}"
            deadline.check(name)
            arrays = job.stage(name, partial(group, first, end)).arrays
            bar.step(end - bar.done)  # also counts trees of an earlier run
            trees += [Tree(*(arrays[f"{t}-{name}"] for name in Tree._fields)) for t in range(end - first)]
    return joined(trees)


def joined(trees: list[Tree]) -> Trees:
    """All trees in one set of arrays, nodes and leaves numbered through."""

    def starts(sizes: list[int]) -> list[int]:
        return np.concatenate([[0], np.cumsum(sizes)[:-1]]).tolist()  # type: ignore[no-any-return]

    nodes, leaves = starts([len(t.children) for t in trees]), starts([len(t.leaf_ptr) - 1 for t in trees])
    pairs = list(zip(trees, nodes, leaves, strict=True))
    children = [np.where(t.children >= 0, t.children + node, t.children - leaf) for t, node, leaf in pairs]
    roots = [node if len(t.children) else -1 - leaf for t, node, leaf in pairs]

    def pointers(name: str, ends: str) -> Any:
        first = starts([len(getattr(t, ends)) for t in trees])
        return np.concatenate(
            [np.zeros(1, np.int64), *(getattr(t, name)[1:] + s for t, s in zip(trees, first, strict=True))]
        )

    def all_of(name: str) -> Any:
        return np.concatenate([getattr(t, name) for t in trees])

    return Trees(
        np.array(roots, np.int32), np.concatenate(children).astype(np.int32), all_of("bias"),
        pointers("ptr", "features"), all_of("features"), all_of("weights"),
        pointers("leaf_ptr", "docs"), all_of("docs"),
    )  # fmt: skip


def centroids_of(X: Csr, Y: Csr, alpha: float, gamma: float) -> Centroids:
    """The mean of each label's texts, scaled to length 1 before."""
    counts = np.maximum(np.bincount(Y.indices, minlength=Y.shape[1]), 1)
    ones = sparse.csr_matrix((np.ones(Y.nnz, np.float32), Y.indices, Y.indptr), Y.shape)
    means = (ones.T @ unit_rows(X)).tocsr()
    means.sort_indices()
    means.data /= np.repeat(counts, np.diff(means.indptr)).astype(np.float32)
    square = np.asarray(means.multiply(means).sum(1), np.float32).ravel()
    return Centroids(
        means.indptr.astype(np.int64),
        means.indices.astype(np.int32),
        means.data.astype(np.float32),
        square,
        alpha,
        gamma,
    )
