"""DECAF (WSDM 2021): label vectors made from label texts, by the same words as texts, with a free vector beside.

Features: the bag of a text's word vectors, weighed by tf-idf, through a residual block. Labels: their own text. Tree:
one level of balanced clusters. Shortlist: descend (true clusters always among the kept ones while training). Rank:
head, of free and text vectors mixed number by number. The own idea is that mix: a label seen twice still has its
text. Score: product of the probabilities. `members` trains several trees (published: three).

Deviations: both levels are trained at once instead of one after the other, and words begin at an encoder's token
vectors (or a file's) instead of a surrogate task; clusters from PIFA smoothed by random walks, from head labels too
(`walk.head`); biases begin at the log odds. Where labels have neither text nor name, their ids are read. One process
only.
"""

from __future__ import annotations

from dataclasses import dataclass

from treetop.assemble.label_parts import Makeup
from treetop.assemble.label_text_fit import (
    BagsConfig,
    check_labels,
    forecast_bags,
    train_label_texts,
    two_levels,
)
from treetop.assemble.label_tree import in_clusters, smoothed_clusters
from treetop.assemble.members import Member, fit_members, small_batches
from treetop.assemble.neural_fit import prepare_words
from treetop.assemble.neural_tree import TreeConfig
from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.forecast import Forecast
from treetop.core.work import Job
from treetop.features.bag import DOCUMENT
from treetop.labels.graph import WalkConfig
from treetop.labels.text import label_words
from treetop.model import Model

GROUP = "short text, label text"
HOOKS = ("rows", "soft", "sample", "mix", "penalty")  # places for augmentations


@dataclass(frozen=True, kw_only=True)
class Config(BagsConfig):
    """Settings of `decaf`."""

    walk: WalkConfig = setting(WalkConfig(), "random walks that smooth label descriptions")
    dropout: float = setting(0.5, "share dropped inside the block over label texts", low=0.0, high=0.99)


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """Words and label vectors with their optimiser states; time for two CPU cores."""
    return forecast_bags(dataset, config, 2)


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Cluster the labels, then train words, both blocks and free vectors at once; once for each member."""
    check_labels(dataset, job, "decaf")
    return fit_members(dataset, config.members, (), job, lambda m, own: _member(dataset, config, m, own, job))


def _member(dataset: Dataset, config: Config, m: int, own: Job, job: Job) -> Member:
    net, texts = ("decaf", config.network), label_words(dataset.labels)
    prepared = prepare_words(dataset, config.encoder, net, (DOCUMENT,), m=m, own=own, job=job, more=texts)
    tree = in_clusters(smoothed_clusters(dataset, config.tfidf, config.tree, config.walk, own))
    keep, level = min(config.keep, tree.sizes[0]), Makeup(view=DOCUMENT.name, dropout=config.dropout)
    made = train_label_texts(
        dataset, prepared, tree, (level, level), TreeConfig(config.learn_encoder, config.learn_heads),
        keep=keep, training=small_batches(dataset, config.train, config.steps), job=own,
    )  # fmt: skip
    return [made.words], [two_levels(made, tree, (level, level), keep)]
