"""InceptionXML-LF (KDD 2024): InceptionXML whose label vectors are made from label texts and a label graph.

Features: words + inception (routed, a second convolution for each task), views as wide as a word vector. Labels: the
sum of their text's words, and those sums added up over a graph of random walks, each through a residual block of
spectral norm 1. Tree: one level of balanced clusters, from PIFA smoothed by the walks; or none for small label sets.
Shortlist: descend. Rank: head. The own idea is the two phases: at first labels have text and graph only, so that words
and network must carry them; then free vectors join, which begin at the text's, and each label weighs the three
(attention). All are one vector once trained. Score: product of the probabilities.

Deviations: no code was published; what the paper leaves open is as in ECLARE or in `features/inception.py`: the width
(positions averaged beside the last layer, as InceptionXML does for its largest data), phases of 5 and 10 epochs,
attention begun anew in phase II, blocks kept. Clusters are the same in both phases: made anew from what the first one
made of label texts (`recluster`, as published) the kept ones held fewer of the true labels. They have free vectors
only. Word vectors begin at an encoder's token vectors where no GloVe file is given; biases begin at the log odds
(`bias=false`: none); losses are sums over candidates. `phases=1` gives the model of phase I. Where labels have neither
text nor name, their ids are read; labels without training texts are found by their text. One process only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from treetop.assemble.label_graph import walked
from treetop.assemble.label_parts import Makeup, Mix
from treetop.assemble.label_text_fit import (
    Made,
    check_labels,
    train_label_texts,
    two_levels,
)
from treetop.assemble.label_tree import ClustersConfig, in_clusters, smoothed_clusters, tree_stage
from treetop.assemble.members import Member, fit_members, small_batches
from treetop.assemble.neural_fit import Prepared, prepare_words
from treetop.assemble.neural_forecast import Numbers, forecast_member, forecast_members, size_of_words
from treetop.assemble.neural_tree import TreeConfig
from treetop.core.config import setting
from treetop.core.dataset import Csr, Dataset
from treetop.core.errors import ConfigError
from treetop.core.forecast import Forecast
from treetop.core.types import LabelTree
from treetop.core.work import Job
from treetop.features.inception import TASKS, InceptionConfig
from treetop.features.tfidf import TfidfConfig
from treetop.features.vectors import WordsConfig
from treetop.labels.graph import WalkConfig
from treetop.labels.text import label_words
from treetop.model import Model
from treetop.partition.balanced import balanced
from treetop.partition.flat import flat
from treetop.train.losses import Reduce
from treetop.train.optim import AdamConfig, ScheduleConfig
from treetop.train.task import TrainConfig

GROUP = "short text, label text"
HOOKS = ("rows", "soft", "sample", "mix", "penalty")  # places for augmentations
META, EXTREME = TASKS


@dataclass(frozen=True, kw_only=True)
class Config(ClustersConfig):
    """Settings of `inceptionxml_lf`."""

    encoder: WordsConfig = setting(WordsConfig(), "where word vectors begin")
    network: InceptionConfig = setting(InceptionConfig(narrow=True), "the network over them")
    members: int = setting(1, "models that differ in seed and clusters, their scores averaged", low=1, high=64)
    walk: WalkConfig = setting(WalkConfig(head=500), "random walks that make the label graph")
    tfidf: TfidfConfig = setting(TfidfConfig(), "what the first clusters are made from")
    phases: int = setting(2, "1: text and graph only; 2: then free vectors too", low=1, high=2)
    recluster: bool = setting(False, "phase II clusters labels anew, by what phase I made of their texts")
    meta_dropout: float = setting(0.3, "share of the clusters' view dropped while training", low=0.0, high=0.99)
    dropout: float = setting(0.4, "share of the labels' view dropped while training", low=0.0, high=0.99)
    label_dropout: float = setting(
        0.2, "share dropped in the blocks over label texts and in attention", low=0.0, high=0.99
    )
    mix: Mix = setting("attention", "how a label's parts join: each weighs its own, or by DECAF's gates")
    bias: bool = setting(True, "a number for each label beside its vector")
    reduce: Reduce = setting("sum", "loss of a level: sum or mean over its candidates")
    score: Literal["own", "path"] = setting("path", "a label's probability alone, or times its cluster's")
    learn_encoder: AdamConfig = setting(AdamConfig(lr=2e-3, weight_decay=0.0), "how words, network and blocks learn")
    second_learn: AdamConfig = setting(AdamConfig(lr=2e-3, weight_decay=0.0), "the same in phase II")
    learn_heads: AdamConfig = setting(AdamConfig(lr=5e-3, weight_decay=0.0), "how free label vectors learn")
    train: TrainConfig = setting(
        TrainConfig(epochs=5, batch=512, schedule=ScheduleConfig(kind="cosine", warmup=0.2)), "the loop of phase I"
    )
    second_train: TrainConfig = setting(
        TrainConfig(epochs=10, batch=512, schedule=ScheduleConfig(kind="cosine", warmup=0.2)), "the loop of phase II"
    )
    steps: int = setting(100, "updates of an epoch aimed at: small data get smaller batches, down to 16", low=1)

    def __post_init__(self) -> None:
        if not self.network.narrow:
            raise ConfigError(
                "network.narrow: views must be as wide as word vectors, as label texts are. Leave it true."
            )


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """Words, network and label vectors with their optimiser states; time for two CPU cores."""
    size = size_of_words(config.encoder)
    share = config.scored(dataset.n_labels)
    vectors = float(dataset.n_labels * size.width)
    epochs = config.train.epochs + (config.second_train.epochs if config.phases > 1 else 0.0)
    training = replace(small_batches(dataset, config.train, config.steps), epochs=epochs)
    numbers = Numbers(vectors=vectors, scored=share * vectors, made=3.0 * min(1.0, training.batch * share) * vectors)
    need = forecast_member(dataset, size, numbers, training, config.encoder.max_length)
    return forecast_members([need] * config.members)


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Walk between labels, cluster them, then both phases; once for each member."""
    check_labels(dataset, job, "inceptionxml_lf")
    return fit_members(dataset, config.members, (), job, lambda m, own: _member(dataset, config, m, own, job))


def _member(dataset: Dataset, config: Config, m: int, own: Job, job: Job) -> Member:
    net, texts, n = ("inception", config.network), label_words(dataset.labels), dataset.n_labels
    prepared = prepare_words(dataset, config.encoder, net, TASKS, m=m, own=own, job=job, more=texts)
    G = walked(dataset, config.walk, own, "inceptionxml_lf")
    tree = flat(n) if config.is_flat(n) else smoothed_clusters(dataset, config.tfidf, config.tree, G, own)
    tree, plans = in_clusters(tree), _plans(config, G)
    made = _phase(dataset, config, prepared, tree, plans, own)
    if config.phases > 1:
        prepared = prepared.read_by(made.words)
        tree = _clusters_again(config, made, own) if config.recluster and tree.sizes[0] > 1 else tree
        plans = (plans[0], replace(plans[1], free=True, begin="text"))
        made = _phase(dataset, config, prepared, tree, plans, own, made)
    return [made.words], [two_levels(made, tree, plans, config.kept(tree.sizes[1], tree.sizes[0]), config.score)]


def _plans(config: Config, G: Csr) -> tuple[Makeup, Makeup]:
    """Phase I: clusters have free vectors, labels their text and those of labels they go with."""
    labels = Makeup(
        view=EXTREME.name, graph=G, free=False, mix=config.mix, block="gelu",
        dropout=config.label_dropout, view_dropout=config.dropout,
    )  # fmt: skip
    return Makeup(view=META.name, text=False, view_dropout=config.meta_dropout), labels


def _phase(
    dataset: Dataset, config: Config, prepared: Prepared, tree: LabelTree, plans: tuple[Makeup, Makeup], job: Job,
    before: Made | None = None,
) -> Made:  # fmt: skip
    first = before is None
    training = small_batches(dataset, config.train if first else config.second_train, config.steps)
    learn = config.learn_encoder if first else config.second_learn
    return train_label_texts(
        dataset, prepared, tree, plans,
        TreeConfig(learn, config.learn_heads, reduce=config.reduce, bias=config.bias),
        keep=config.kept(tree.sizes[1], tree.sizes[0]), training=training, job=job,
        name="train" if first else "second-train", before=before, again=first and config.phases > 1,
    )  # fmt: skip


def _clusters_again(config: Config, made: Made, job: Job) -> LabelTree:
    """Phase II: clusters by what the first phase made of label texts."""
    texts = made.texts
    if texts is None:
        raise ValueError("phase I kept no label vectors")
    return tree_stage(job, "second-tree", lambda: balanced(texts, replace(config.tree, shallow=True), seed=job.seed))
