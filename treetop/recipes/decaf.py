"""DECAF (WSDM 2021): a label's vector is its text, read with the same word vectors as documents, plus a free part.

Features: tf-idf-weighted sum of a text's word vectors, through a residual block. Labels: their own text. Tree: one
level of balanced clusters. Shortlist: descend (in training the true clusters are always included). Rank: head, whose
label vectors combine a free and a text vector by element-wise gates. Key idea: this combination; a label with two
training texts still has its own text. Score: product of the probabilities. `members` trains several trees (published:
three).

Deviations: both levels are trained jointly instead of one after the other, and word vectors are initialised with an
encoder's token embeddings (or from a file) instead of by a surrogate task; clusters come from PIFA smoothed by random
walks, which also start from head labels (`walk.head_threshold`); biases are initialised with the log odds. For labels
with neither text nor name, the id is read. Single process only.
"""

from __future__ import annotations

from dataclasses import dataclass

from treetop.assemble.label_text_bags import BagsConfig, check_labels, forecast_bags, prepare_bag, train_bag
from treetop.assemble.label_tree import in_clusters, smoothed_clusters
from treetop.assemble.members import Member, fit_members
from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.forecast import Forecast
from treetop.core.work import Job
from treetop.labels.graph import WalkConfig
from treetop.model import Model
from treetop.network.vectors.parts import PartsPlan

GROUP = "short text, label text"
HOOKS = ("rows", "soft", "sample", "mix", "penalty")  # places for augmentations


@dataclass(frozen=True, kw_only=True)
class Config(BagsConfig):
    """Settings of `decaf`."""

    walk: WalkConfig = setting(WalkConfig(), "random walks that smooth the label representations")
    dropout: float = setting(0.5, "dropout in the label-text block", low=0.0, high=0.99)


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """Words and label vectors with their optimiser states; time on two CPU cores, or on the GPU."""
    return forecast_bags(dataset, config, PartsPlan())


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Cluster the labels, then train words, both blocks and free vectors at once; once for each member."""
    check_labels(dataset, job, "decaf")
    return fit_members(
        dataset, config.members, (), job, lambda m, member_job: _member(dataset, config, m, member_job, job)
    )


def _member(dataset: Dataset, config: Config, m: int, member_job: Job, job: Job) -> Member:
    prepared = prepare_bag(dataset, config, m, member_job, job)
    tree = in_clusters(smoothed_clusters(dataset, config.tfidf, config.tree, config.walk, member_job))
    parts = PartsPlan(dropout=config.dropout)  # text and free vector
    return train_bag(dataset, config, prepared, tree, parts, parts, member_job)
