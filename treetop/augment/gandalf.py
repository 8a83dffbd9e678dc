"""Gandalf (KDD 2024): label texts as further texts, with the labels that go with theirs as soft targets.

The text of label j is a row whose target for label l is P(l | j), the share of j's texts that have l too, where above
`delta`; 1 for j itself. Most labels have fewer than five texts, and their own text ties them to labels that have more.
Nothing changes in the model or when it answers. Barred pairs are not counted, and bar a label's text where they bar a
text equal to it; a label barred for its own text gets no row. Labels of equal text have the largest of their targets; a
label without texts has its own only.

Deviations: `delta` is 0.2 and one text is added to each label's own (`shrink`), so that what went once with a label of
one text is no certainty; the paper has 0.1 and none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from treetop.augment.label_texts import RowsConfig, needs_of, with_label_texts
from treetop.core.config import setting
from treetop.core.dataset import Csr, Dataset
from treetop.core.forecast import duration, size
from treetop.core.log import logger
from treetop.core.store import Part
from treetop.core.work import Job
from treetop.labels.graph import Needs, ShareConfig, counted, share_graph, share_needs

NAME = "gandalf"


@dataclass(frozen=True, kw_only=True)
class Config(ShareConfig, RowsConfig):
    """Settings of `gandalf`."""

    delta: float = setting(
        0.2, "of a label's texts more than this share must have the other label too", low=0.0, high=1.0
    )
    shrink: float = setting(
        1.0, "texts added to a label's own when shares are taken, so that few texts say less", low=0
    )


def needs(config: Config) -> list[str]:
    """Rows with soft targets."""
    return needs_of(config, "soft")


def forecast(dataset: Dataset, config: Config) -> Needs:
    """What the graph takes."""
    return share_needs(counted(dataset), config)


def rows(dataset: Dataset, config: Config, job: Job) -> Dataset:
    """The data set with label texts as rows."""
    return with_label_texts(dataset, graph(dataset, config, job, NAME), config, NAME, job.seed)


def graph(dataset: Dataset, config: ShareConfig, job: Job, name: str, *, symmetric: bool = False) -> Csr:
    """The graph of labels that share texts; one resumable stage."""

    def make() -> Part:
        Y = counted(dataset)
        expected = share_needs(Y, config, symmetric=symmetric)
        logger.info(
            "%s: a graph of about %s entries, %s of memory, %s",
            name, f"{expected.entries:,.0f}", size(expected.memory), duration(expected.time),
        )  # fmt: skip
        G = share_graph(Y, config, symmetric=symmetric)
        return Part("stage.graph.1", {}, {"indptr": G.indptr.astype(np.int64), "indices": G.indices, "data": G.data})

    part = job.stage(f"{name}-graph", make)
    n = dataset.n_labels
    return sparse.csr_matrix((part.arrays["data"], part.arrays["indices"], part.arrays["indptr"]), (n, n))
