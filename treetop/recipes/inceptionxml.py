"""InceptionXML (2021): a small convolutional network over word vectors for short texts, and two levels of labels.

Features: words + inception (self-attention over words and over embedding dimensions, then convolutions along the
embedding dimension). Labels: PIFA smoothed by random walks. Tree: one level of small balanced clusters, or none for
small label sets. Shortlist: descend (the labels of the clusters currently ranked highest, about 4 · √(number of labels)
of them). Rank: head. Key idea: the network. It costs a fraction of a transformer, and clusters and labels read views of
their own, so shortlist and classifier are trained jointly. Score: product of the probabilities. `members` trains an
ensemble.

Deviations: the routed network with a second convolution per task (InceptionXML-LF's variant; `network.combine=concat`
is the older one); word vectors are initialised with an encoder's token embeddings if no GloVe file is given, and stop
words are kept; walks also start from head labels (`walk.head_threshold=500`: these keep only themselves, as published);
biases are initialised with the log odds (`bias=false`: none); losses are summed over candidates (`reduction=mean`: as
published); cosine learning-rate schedule; single process only. See `features/words/inception.py` for the network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from treetop.assemble.label_tree import ClustersConfig, smoothed_clusters
from treetop.assemble.members import Member, fit_members, member_name
from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.forecast import Forecast
from treetop.core.work import Job
from treetop.features.tfidf.tfidf import TfidfConfig
from treetop.features.words.inception import TASKS, InceptionConfig
from treetop.features.words.vectors import WordsConfig
from treetop.labels.graph import WalkConfig
from treetop.model import Model
from treetop.network.build import Blueprint, Learning
from treetop.network.fit import as_levels, train_network
from treetop.network.forecast import forecast_words
from treetop.network.head import HeadPlan
from treetop.network.losses.pairs import Reduce
from treetop.network.prepare import prepare_words
from treetop.network.settings import small_batches
from treetop.partition.balanced import sizes_of
from treetop.partition.flat import flat
from treetop.tensors import devices
from treetop.tensors.devices import World
from treetop.train.optim import AdamConfig
from treetop.train.task import TrainConfig, warmed_up

GROUP = "short text, label text"
HOOKS = ("rows", "soft", "sample", "mix", "penalty")  # places for augmentations
TUNES = {  # settings that `treetop tune` tries
    "train.epochs": [8.0, 15.0, 25.0],
    "encoder_optimizer.lr": [0.0005, 0.001, 0.002],
    "dropout": [0.4, 0.6, 0.75],
    "network.filters": [32, 64],
}
META, EXTREME = TASKS


@dataclass(frozen=True, kw_only=True)
class Config(ClustersConfig):
    """Settings of `inceptionxml`."""

    encoder: WordsConfig = setting(WordsConfig(), "pretrained word vectors")
    network: InceptionConfig = setting(InceptionConfig(), "text encoder on top of the word vectors")
    members: int = setting(1, "ensemble size: members differ in seed and clusters, scores are averaged", low=1, high=64)
    smooth: bool = setting(True, "smooth label representations by random walks before clustering")
    walk: WalkConfig = setting(WalkConfig(), "random walks")
    tfidf: TfidfConfig = setting(TfidfConfig(), "tf-idf features for label clustering")
    projection_dim: int = setting(0, "projection dimension of the label head (with clusters); 0: no projection", low=0)
    cluster_dropout: float = setting(0.5, "dropout on the cluster head's view", low=0.0, high=0.99)
    dropout: float = setting(0.6, "dropout on the label head's view", low=0.0, high=0.99)
    detach_fraction: float = setting(
        0.0,
        "fraction of training at its start in which the label head's gradient is detached from the encoder",
        high=1.0,
    )
    bias: bool = setting(True, "learn a bias per label")
    reduction: Reduce = setting("sum", "reduction of a level's loss over its candidates")
    score: Literal["own", "path"] = setting("path", "label probability alone (own), or times its cluster's (path)")
    encoder_optimizer: AdamConfig = setting(
        AdamConfig(lr=5e-4, weight_decay=0.0), "optimiser of word vectors and network"
    )
    head_optimizer: AdamConfig = setting(AdamConfig(lr=5e-3, weight_decay=0.0), "optimiser of the label vectors")
    train: TrainConfig = setting(warmed_up(15, 512, "cosine", 0.2), "training loop")
    min_steps_per_epoch: int = setting(
        100, "target updates per epoch: small data sets get smaller mini-batches, down to 16", low=1
    )
    validation: float = setting(0.0, "hold-out fraction of the documents, for early stopping", low=0.0, high=0.5)


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """Words, network and label vectors with their optimiser states; time on two CPU cores, or on the GPU."""
    n, filters = dataset.n_labels, config.network.filters
    sizes = [n] if config.is_flat(n) else sizes_of(n, config.tree)
    return forecast_words(
        dataset, config, config.train, lambda size: _heads(config, filters * max(1, size.width // 16), sizes)
    )


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Cluster the labels, then train words, network and both levels at once; once for each member."""
    World.join(devices.pick(job.device)).require_one_process(
        "inceptionxml"
    )  # its batch norm would see a part of each batch
    return fit_members(
        dataset, config.members, (), job, lambda m, member_job: _member(dataset, config, m, member_job, job)
    )


def _member(dataset: Dataset, config: Config, m: int, member_job: Job, job: Job) -> Member:
    n, walk = dataset.n_labels, config.walk if config.smooth else None
    tree = flat(n) if config.is_flat(n) else smoothed_clusters(dataset, config.tfidf, config.tree, walk, member_job)
    tasks = TASKS if len(tree.sizes) > 1 else (EXTREME,)
    prepared = prepare_words(
        dataset,
        config.encoder,
        ("inception", config.network),
        tasks,
        name=member_name("words", m),
        seed=member_job.seed,
        job=job,
    )
    plans = _heads(config, prepared.features.encoder.width, tree.sizes)
    learning = Learning(
        encoder=config.encoder_optimizer,
        heads=config.head_optimizer,
        reduce=config.reduction,
        bias=config.bias,
        detach=config.detach_fraction,
    )
    inputs, blueprint = prepared.learning(), Blueprint(plans, tree, learning)
    training = small_batches(dataset, config.train, config.min_steps_per_epoch)
    trained = train_network(dataset, prepared, inputs, blueprint, training, member_job, validation=config.validation)
    views = [trained.features.view_name(task) for task in tasks]
    return [trained.features], [as_levels(views, tree, trained.ranks, plans, config.score)]


def _heads(config: Config, width: int, sizes: Sequence[int]) -> list[HeadPlan]:
    """Clusters on a view of their own, then the labels below the best; or all labels at once."""
    labels = HeadPlan(view=EXTREME.name, view_width=width, n=sizes[-1], dropout=config.dropout)
    if len(sizes) == 1:
        return [labels]
    clusters = HeadPlan(view=META.name, view_width=width, n=sizes[0], name="clusters", dropout=config.cluster_dropout)
    return [clusters, replace(labels, keep=config.kept(sizes[-1], sizes[0]), dimension=config.projection_dim)]
