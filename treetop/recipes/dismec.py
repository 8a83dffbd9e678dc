"""DiSMEC (WSDM 2017, DiSMEC++ 2021): one linear classifier per label over all texts, small weights pruned immediately.

Features: tf-idf. Tree: flat. Shortlist: everything. Rank: linear, L2-regularised squared hinge, one-vs-all. Key idea:
pruning. A weight below `linear.threshold` carries little information, and pruning right after a label is solved makes
thousands of labels fit into memory and into a small model.

Deviations: each problem is solved on a working set of texts and checked against all of them, which reaches the same
minimum as Newton steps over all texts (`linear.solver: newton`) in a tenth of the time; the mean-separating
initialisation selects the first working set. Blocks of labels are stages of one job instead of jobs on many machines. A
label none of whose texts has a known word is never returned.
"""

from __future__ import annotations

from dataclasses import dataclass

from treetop.assemble.linear.budget import WIDTHS
from treetop.assemble.linear.one_vs_all import OneVsAllConfig, train_labels
from treetop.assemble.view import expected_terms, sparse_view
from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.forecast import Forecast
from treetop.core.types import Level
from treetop.core.work import Job
from treetop.features.tfidf.tfidf import AUTO, TfidfConfig
from treetop.model import Model
from treetop.shortlist.everything import Everything

GROUP = "linear, trees"
REFITS = True  # quick enough to train on all documents again, once scores are calibrated on held-out ones
CLUSTER = True  # the nodes of a cluster share clusters and labels
HOOKS = ("rows",)  # places for augmentations: linear functions know no soft targets
TUNES = {  # settings that `treetop tune` tries
    "linear.cost": [0.5, 1.0, 3.0, 10.0],
    "linear.threshold": [0.003, 0.01, 0.03],
    "tfidf.ngrams": [[1, 1], [1, 2], [1, 3]],
    "tfidf.char_ngrams": ["auto", None, [2, 4]],
}


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of `dismec`."""

    tfidf: TfidfConfig = setting(TfidfConfig(ngrams=(1, 2), min_df=2, char_ngrams=AUTO), "tf-idf features")
    linear: OneVsAllConfig = setting(OneVsAllConfig(), "linear classifier of each label")


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """From the shape of the data; a label costs a few walks through the index and steps over texts near its own."""
    nnz, vocabulary = expected_terms(dataset, config.tfidf)
    per_label = nnz / max(len(dataset), 1) * dataset.Y.nnz / max(dataset.n_labels, 1)
    weights = dataset.n_labels * min(4.5 * per_label, nnz)
    names = 2.0 * (len(dataset.labels.names.blob) + len(dataset.labels.texts.blob))
    model = weights * (WIDTHS[config.linear.storage] + 2.0) + names + vocabulary
    memory = 2.5e8 + 40.0 * nnz + 16.0 * dataset.Y.nnz + 2 * len(dataset.texts.blob) + model
    walks = 70.0 if config.linear.solver == "newton" else 4.0
    seconds = 3.0 + dataset.n_labels * (walks * nnz + 6e3 * per_label) * 1e-9
    shared = 24.0 * nnz + 4.0 * dataset.Y.nnz  # rows, and an index of them in two views
    return Forecast(memory=memory, model=model, time=seconds, shared=shared)


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Solve, prune and pack block after block of labels."""
    view = sparse_view(dataset, config.tfidf, job)
    rank = train_labels(view.X, dataset, config.linear, job)
    return Model.over(dataset, view.features, [[Level(view.name, Everything(dataset.n_labels), rank)]])
