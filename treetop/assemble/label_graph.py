"""From data to a graph of labels: those that share texts, or those that random walks meet; one resumable stage."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import sparse

from treetop.core.dataset import Csr, Dataset
from treetop.core.forecast import duration, size
from treetop.core.log import logger
from treetop.core.store import Part
from treetop.core.work import Job
from treetop.labels.graph import ShareConfig, WalkConfig, counted, links, share_graph, share_needs, walk_graph


def share_graph_stage(dataset: Dataset, config: ShareConfig, job: Job, name: str, *, symmetric: bool = False) -> Csr:
    """(labels, labels) shares of texts that labels have in common, for the augmentation `name`."""

    def make() -> Csr:
        Y = counted(dataset)
        expected = share_needs(Y, config, symmetric=symmetric)
        logger.info(
            "%s: a graph of about %s entries, %s of memory, %s",
            name,
            f"{expected.entries:,.0f}",
            size(expected.memory),
            duration(expected.time),
        )
        return share_graph(Y, config, symmetric=symmetric)

    return _stage(job, f"{name}-graph", make)


def walk_graph_stage(dataset: Dataset, config: WalkConfig, job: Job, name: str) -> Csr:
    """(labels, labels) how often random walks between labels that share a document meet, for the recipe `name`."""
    G = _stage(job, "graph", lambda: walk_graph(counted(dataset), config, seed=job.seed))
    if not links(G):
        logger.warning("%s: no two labels share a text, so the label graph adds nothing to the label texts", name)
    return G


def _stage(job: Job, name: str, make: Callable[[], Csr]) -> Csr:
    """`make()`, or the graph an earlier run of the same job left."""

    def stored() -> Part:
        G = make()
        return Part("stage.graph.1", {}, {"indptr": G.indptr.astype(np.int64), "indices": G.indices, "data": G.data})

    arrays = job.stage(name, stored).arrays
    n = len(arrays["indptr"]) - 1
    return sparse.csr_matrix((arrays["data"], arrays["indices"], arrays["indptr"]), (n, n))
