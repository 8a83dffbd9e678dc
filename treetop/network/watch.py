"""Validation after every epoch: P@1, P@5 and PSP@5 as `treetop evaluate` computes them.

The documents are the rows that a recipe holds out (`validation`), which early stopping uses, or documents outside the
training data (`Job.held_out`), which are only reported. Validation draws no random number and changes no weight.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from treetop.core.dataset import Dataset, Ints
from treetop.core.types import LabelTree, Ranking
from treetop.core.work import Job
from treetop.evaluate.match import DEPTH, Matches
from treetop.evaluate.metrics import rates
from treetop.network.inputs import Inputs
from treetop.network.prepare import Prepared
from treetop.network.targets import of_clusters
from treetop.train.batches import Rows
from treetop.train.task import Validation

MOST, LEAST, SHARE = 2000, 500, 0.2  # documents beside the training data: so many, or this share of the training rows
FIGURES = ("P@1", "P@5", "PSP@5")
KS = (1, 3, 5)
Lists = NDArray[np.integer]


@dataclass(frozen=True, eq=False)
class Watched:
    """Rows `rows` of `inputs`, and the same documents with their labels.

    `counts` and `n_train` are those of the training data, for propensities.
    """

    inputs: Inputs
    rows: Rows
    documents: Dataset
    counts: Ints
    n_train: int
    decides: bool  # whether early stopping goes by them
    given: Lists | None = None  # their candidates, where a head scores given ones only

    @classmethod
    def of(cls, dataset: Dataset, inputs: Inputs, rows: Rows, documents: Dataset, *, decides: bool) -> Watched:
        return cls(inputs, rows, documents, dataset.label_counts, int(dataset.documents.sum()), decides)

    @property
    def k(self) -> int:
        """Labels to rank for each document: enough for those its filter takes away."""
        return min(DEPTH + self.documents.most_filtered, len(self.counts))

    def validation(self, top: NDArray[np.integer]) -> Validation:
        """Figures of the (rows, k) labels `top`, best first; -1: no label."""
        there = top >= 0
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(there.sum(1))])
        ids = top[there].astype(np.int32)
        nothing = np.zeros(len(ids), np.float32)
        matches = Matches.of(Ranking(indptr, ids, nothing, nothing), self.documents, self.counts, self.n_train)
        found = rates(matches.sums(np.array(KS)), len(matches), KS)
        score = float(np.mean([found[f"P@{k}"] for k in KS])) if self.decides else None
        return Validation({name: float(found[name]) for name in FIGURES}, score)


def rows_held_out(dataset: Dataset, inputs: Inputs, rows: Rows) -> Watched | None:
    """Rows of the training data that are not trained on; None where there are none."""
    return Watched.of(dataset, inputs, rows, dataset.take(rows), decides=True) if len(rows) else None


def watched(
    dataset: Dataset, prepared: Prepared, inputs: Inputs, rows: Rows, job: Job, *, given: Lists | None = None
) -> Watched | None:
    """The held-out rows of the training data, or else a sample of the documents beside it.

    Those must have the labels of the training data first, in the same order; a stage over other labels has no figures.
    `given` are the candidates of the sample, where it was drawn before (`sampled_job`).
    """
    documents = sample(dataset, job)
    if len(rows) or documents is None or documents.labels.ids[: dataset.n_labels] != dataset.labels.ids:
        return rows_held_out(dataset, inputs, rows)
    beside = prepared.beside(documents.texts, inputs)
    seen = Watched.of(dataset, beside, np.arange(len(documents)), documents, decides=False)
    return replace(seen, given=given)


def sample(dataset: Dataset, job: Job) -> Dataset | None:
    """The validation documents outside the training data, always the same ones; None: there are none."""
    if job.held_out is None or not job.held_out.documents.any():
        return None
    documents: Dataset = job.held_out
    most = min(MOST, max(LEAST, int(SHARE * dataset.learned.sum())))
    chosen = np.random.default_rng([job.seed, 4]).permutation(np.flatnonzero(documents.documents))[:most]
    return documents.take(np.sort(chosen))


def sampled_job(dataset: Dataset, job: Job) -> Job:
    """The same job with nothing but the sample beside its training data, so that candidates can be given for it."""
    return replace(job, held_out=sample(dataset, job))


def over_clusters(job: Job, tree: LabelTree, level: int = 0) -> Job:
    """The job of a stage whose labels are the clusters of a tree (`of_clusters`)."""
    return job if job.held_out is None else replace(job, held_out=of_clusters(job.held_out, tree, level))
