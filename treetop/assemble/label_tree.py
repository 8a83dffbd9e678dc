"""From data to a label tree: describe the labels, then group them; one resumable stage."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np

from treetop.assemble.view import SparseView, sparse_view
from treetop.core import registry
from treetop.core.config import Registered, setting
from treetop.core.dataset import Csr, Dataset
from treetop.core.store import Part
from treetop.core.types import LabelTree
from treetop.core.work import Job
from treetop.features.tfidf.tfidf import TfidfConfig
from treetop.labels.graph import WalkConfig, smoothed, walk_graph
from treetop.labels.pifa import pifa
from treetop.labels.source import Source
from treetop.partition.balanced import BalancedConfig, balanced

Description = Annotated[str, Registered("labels")]
FEW = 5_000  # labels below which clusters cost a small network more than they save, for a text alone too


@dataclass(frozen=True, kw_only=True)
class ClustersConfig:
    """One level of clusters above the labels, or none."""

    clusters: Literal["auto", "none", "tree"] = setting(
        "auto", "cluster labels (two levels), or score all of them; auto: by the number of labels"
    )
    tree: BalancedConfig = setting(BalancedConfig(max_leaf=10, shallow=True, stop_when="gain"), "label clustering")
    beam: int = setting(
        0, "beam: clusters whose labels are ranked; 0: enough for about 4 · √(number of labels) labels", low=0
    )

    def is_flat(self, labels: int) -> bool:
        """Whether a label set of this size gets no clusters."""
        return labels < FEW if self.clusters == "auto" else self.clusters == "none" or labels <= self.tree.max_leaf

    def kept(self, labels: int, clusters: int) -> int:
        """Clusters that together have about 4 · √(number of labels) labels."""
        return min(clusters, self.beam or math.ceil(4.0 * math.sqrt(labels) * clusters / labels))


def describe_labels(dataset: Dataset, view: SparseView, how: Description, *, normalise_targets: bool = True) -> Any:
    """Z (labels x features) by the description of this name, such as `pifa`."""
    X, Y = of_documents(dataset, view.X)
    features = view.features.get(view.name)
    source = Source(how, dataset.name, X, Y, dataset.labels, features, view.name, normalise_targets)
    return registry.find("labels", how)(source)


def of_documents(dataset: Dataset, X: Csr) -> tuple[Csr, Csr]:
    """Features and targets of the documents alone; not copied where all rows are documents."""
    documents = dataset.documents
    return (X, dataset.Y) if documents.all() else (X[documents], dataset.Y[documents])


def tree_stage(job: Job, name: str, make: Callable[[], LabelTree]) -> LabelTree:
    """`make()`, or the tree an earlier run of the same job left."""

    def stored() -> Part:
        tree = make()
        arrays: dict[str, Any] = {f"parents-{t:02d}": parent for t, parent in enumerate(tree.parents)}
        copies = enumerate(tree.copies)
        arrays |= {f"copies-{t:02d}": mask for t, mask in copies if mask is not None and mask.any()}
        return Part("stage.tree.1", {"levels": len(tree.parents)}, arrays)

    part = job.stage(name, stored)
    parents = tuple(np.asarray(part.arrays[f"parents-{t:02d}"]) for t in range(part.config["levels"]))
    copies = tuple(part.arrays.get(f"copies-{t:02d}") for t in range(len(parents)))
    return LabelTree(parents, copies if any(mask is not None for mask in copies) else ())


def smoothed_clusters(
    dataset: Dataset, tfidf: TfidfConfig, config: BalancedConfig, walk: WalkConfig | Csr | None, job: Job
) -> LabelTree:
    """One level of balanced clusters above the labels, from PIFA, smoothed by random walks if requested.

    `walk` may be the graph of such walks.
    """

    def make() -> LabelTree:
        X, Y = of_documents(dataset, sparse_view(dataset, tfidf, job).X)
        Z = pifa(X, Y, normalise_targets=walk is None)
        if walk is not None:
            Z = smoothed(Z, walk_graph(Y, walk, seed=job.seed) if isinstance(walk, WalkConfig) else walk)
        return balanced(Z, replace(config, shallow=True), seed=job.seed)

    return tree_stage(job, "tree", make)


def in_clusters(tree: LabelTree) -> LabelTree:
    """The same tree; if it is flat, with one cluster of all labels on top."""
    return tree if len(tree.sizes) > 1 else LabelTree((np.zeros(1, np.int32), np.zeros(tree.sizes[0], np.int32)))
