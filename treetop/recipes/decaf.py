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
from treetop.assemble.label_text_fit import check_labels, prepare_label_words, train_label_texts, two_levels
from treetop.assemble.label_tree import in_clusters, smoothed_clusters
from treetop.assemble.members import Member, fit_members, small_batches
from treetop.assemble.neural_forecast import Numbers, forecast_member, forecast_members, size_of_words
from treetop.assemble.neural_tree import TreeConfig
from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.forecast import Forecast
from treetop.core.work import Job
from treetop.features.bag import DOCUMENT, BagConfig
from treetop.features.tfidf import TfidfConfig
from treetop.features.vectors import WordsConfig
from treetop.labels.graph import WalkConfig
from treetop.model import Model
from treetop.partition.balanced import BalancedConfig
from treetop.train.optim import AdamConfig, ScheduleConfig
from treetop.train.task import TrainConfig

GROUP = "short text, label text"
HOOKS = ("rows", "soft", "sample", "mix", "penalty")  # places for augmentations


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of `decaf`."""

    encoder: WordsConfig = setting(WordsConfig(max_length=64), "where word vectors begin")
    network: BagConfig = setting(BagConfig(), "the network over them")
    members: int = setting(1, "models that differ in seed and clusters, their scores averaged", low=1, high=64)
    tree: BalancedConfig = setting(BalancedConfig(max_leaf=10, shallow=True, rule="gain"), "how labels are clustered")
    walk: WalkConfig = setting(WalkConfig(), "random walks that smooth label descriptions")
    tfidf: TfidfConfig = setting(TfidfConfig(), "what clusters are made from")
    keep: int = setting(100, "clusters whose labels are ranked", low=1)
    dropout: float = setting(0.5, "share dropped inside the block over label texts", low=0.0, high=0.99)
    learn_encoder: AdamConfig = setting(AdamConfig(lr=5e-3, weight_decay=0.0), "how words and blocks learn")
    learn_heads: AdamConfig = setting(AdamConfig(lr=8e-3, weight_decay=0.0), "how free label vectors learn")
    train: TrainConfig = setting(
        TrainConfig(epochs=15, batch=512, schedule=ScheduleConfig(kind="linear", warmup=0.05)), "the loop"
    )
    steps: int = setting(100, "updates of an epoch aimed at: small data get smaller batches, down to 16", low=1)


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """Words and label vectors with their optimiser states; time for two CPU cores."""
    size = size_of_words(config.encoder)
    vectors = float(dataset.n_labels * size.width)
    scored = min(vectors, float(config.keep * config.tree.max_leaf * size.width))
    numbers = Numbers(vectors=vectors, scored=scored, made=2.0 * min(vectors, config.train.batch * scored))
    need = forecast_member(dataset, size, numbers, config.train, config.encoder.max_length)
    return forecast_members([need] * config.members)


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Cluster the labels, then train words, both blocks and free vectors at once; once for each member."""
    check_labels(dataset, job, "decaf")
    return fit_members(dataset, config.members, (), job, lambda m, own: _member(dataset, config, m, own, job))


def _member(dataset: Dataset, config: Config, m: int, own: Job, job: Job) -> Member:
    net = ("decaf", config.network)
    prepared = prepare_label_words(dataset, config.encoder, net, (DOCUMENT,), m=m, own=own, job=job)
    tree = in_clusters(smoothed_clusters(dataset, config.tfidf, config.tree, config.walk, own))
    keep, level = min(config.keep, tree.sizes[0]), Makeup(view=DOCUMENT.name, dropout=config.dropout)
    made = train_label_texts(
        dataset, prepared, tree, (level, level), TreeConfig(config.learn_encoder, config.learn_heads),
        keep=keep, training=small_batches(dataset, config.train, config.steps), job=own,
    )  # fmt: skip
    return [made.words], [two_levels(made, tree, (level, level), keep)]
