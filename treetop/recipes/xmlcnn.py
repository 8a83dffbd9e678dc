"""XML-CNN (SIGIR 2017): convolutions over the words of a text, max-pooled in parts, and one classifier over all labels.

Features: words + cnn (windows of 2, 4 and 8 words, dynamic max pooling, a hidden layer as bottleneck). Labels: not
described. Tree: none. Shortlist: everything. Rank: head. Key idea: pooling each part of a text for itself keeps more
than one maximum of the whole text, and the hidden layer keeps label vectors short. Score: probability. `members` trains
an ensemble.

Deviations: texts are cut into parts by their own length, not by that of the padding; word vectors are initialised with
an encoder's token embeddings if no GloVe file is given; biases are initialised with the log odds (`bias=false`: none);
losses are summed over labels (`reduction=mean`: as published); cosine learning-rate schedule. With `network.windows=[]`
the convolutions are left out and the same head reads averaged word vectors. On wordnet it beats them (P@1 87.9 against
85.5 on test); on finna-yso-en-25k, with 24,199 labels, these settings do not learn (13.5 against 28.7): use another
recipe there (`gpu/family-h200.jsonl`).
"""

from __future__ import annotations

from dataclasses import dataclass

from treetop.assemble.members import Member, fit_members, member_name
from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.forecast import Forecast
from treetop.core.work import Job
from treetop.features.words.cnn import VIEW, CnnConfig
from treetop.features.words.vectors import WordsConfig
from treetop.model import Model
from treetop.network.build import Blueprint, Learning
from treetop.network.fit import as_levels, train_network
from treetop.network.forecast import forecast_words
from treetop.network.head import HeadPlan
from treetop.network.losses.pairs import Reduce
from treetop.network.prepare import prepare_words
from treetop.network.settings import small_batches
from treetop.partition.flat import flat
from treetop.train.optim import AdamConfig
from treetop.train.task import TrainConfig, warmed_up

GROUP = "short text, label text"
HOOKS = ("rows", "soft", "sample", "mix", "penalty")  # places for augmentations
TUNES = {  # settings that `treetop tune` tries
    "train.epochs": [6.0, 10.0, 15.0],
    "encoder_optimizer.lr": [0.0005, 0.001, 0.002],
    "dropout": [0.3, 0.5, 0.7],
    "network.parts": [1, 2, 4],
}


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of `xmlcnn`."""

    encoder: WordsConfig = setting(WordsConfig(max_length=64), "pretrained word vectors")
    network: CnnConfig = setting(CnnConfig(), "text encoder on top of the word vectors")
    members: int = setting(1, "ensemble size: members differ in seed, scores are averaged", low=1, high=64)
    dropout: float = setting(0.5, "dropout on the hidden layer", low=0.0, high=0.99)
    bias: bool = setting(True, "learn a bias per label")
    reduction: Reduce = setting("sum", "reduction of the loss over the labels")
    encoder_optimizer: AdamConfig = setting(
        AdamConfig(lr=1e-3, weight_decay=0.0), "optimiser of word vectors and network"
    )
    head_optimizer: AdamConfig = setting(AdamConfig(lr=3e-3, weight_decay=0.0), "optimiser of the label vectors")
    train: TrainConfig = setting(warmed_up(10, 256, "cosine", 0.1), "training loop")
    min_steps_per_epoch: int = setting(
        100, "target updates per epoch: small data sets get smaller mini-batches, down to 16", low=1
    )
    validation: float = setting(0.0, "hold-out fraction of the documents, for early stopping", low=0.0, high=0.5)


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """Words, network and label vectors with their optimiser states; time on two CPU cores, or on the GPU."""
    training = small_batches(dataset, config.train, config.min_steps_per_epoch)
    return forecast_words(
        dataset, config, training, lambda size: [_head(config, config.network.width(size.width), dataset.n_labels)]
    )


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Train words, convolutions and the classifier together; once for each member."""
    return fit_members(
        dataset, config.members, (), job, lambda m, member_job: _member(dataset, config, m, member_job, job)
    )


def _member(dataset: Dataset, config: Config, m: int, member_job: Job, job: Job) -> Member:
    prepared = prepare_words(
        dataset, config.encoder, ("cnn", config.network), (VIEW,), name=member_name("words", m), seed=member_job.seed,
        job=job,
    )  # fmt: skip
    tree = flat(dataset.n_labels)
    plans = [_head(config, prepared.features.encoder.width, dataset.n_labels)]
    learning = Learning(
        encoder=config.encoder_optimizer, heads=config.head_optimizer, reduce=config.reduction, bias=config.bias
    )
    trained = train_network(
        dataset, prepared, prepared.learning(), Blueprint(plans, tree, learning),
        small_batches(dataset, config.train, config.min_steps_per_epoch), member_job, validation=config.validation,
    )  # fmt: skip
    return [trained.features], [as_levels([trained.features.view_name(VIEW)], tree, trained.ranks, plans)]


def _head(config: Config, width: int, labels: int) -> HeadPlan:
    return HeadPlan(view=VIEW.name, view_width=width, n=labels, dropout=config.dropout)
