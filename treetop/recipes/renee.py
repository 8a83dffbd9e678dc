"""Renee (MLSys 2023): binary cross-entropy over all labels, without sampling; label texts are training rows too.

Features: transformer, mean of the last layer. Labels: their texts are training rows with their own label, unless a
filter pair excludes it. Tree: none. Shortlist: everything. Rank: head. Key idea: no shortlist. The gradient of a logit
is its probability minus the target, so blocks of logits are turned into gradients and discarded, and logits are never
all in memory. Labels that occur only as their own text can be predicted too. `encoder.model` may name a treetop model:
a warm start from an encoder trained by, say, `ngame`.

Deviations: AdamW on the label vectors instead of SGD with momentum; text embeddings of constant norm in training, label
vectors initialised from label text, and a bias per label (`init: zero`, `bias: false` and `encoder.l2: false`, as in
the presets `paper-...`, turn these off). `label_memory: low` keeps label vectors in bfloat16 and updates them by plain
SGD as soon as their gradient is computed, with stochastic rounding so that small updates are not lost: 2 bytes per
parameter instead of 12.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from treetop.assemble.label_rows import excluded_labels, not_excluded, with_rows_of
from treetop.core.config import setting
from treetop.core.dataset import LABEL_TEXT, Dataset
from treetop.core.forecast import Forecast
from treetop.core.work import Job
from treetop.features.encoder.encoder import Pooling
from treetop.features.encoder.sources import read_encoder_config
from treetop.features.encoder.transformer import TransformerConfig
from treetop.labels.text import label_words
from treetop.model import Model
from treetop.network.build import Blueprint, Learning
from treetop.network.fit import as_levels, train_network
from treetop.network.forecast import EncoderSize, count, forecast_member, learning_time
from treetop.network.head import HeadPlan
from treetop.network.init import Init
from treetop.network.prepare import prepare
from treetop.network.settings import MEMORY, Memory, NetworkConfig, no_average, small_batches
from treetop.partition.flat import flat
from treetop.train.optim import DescentConfig
from treetop.train.task import TrainConfig, warmed_up

GROUP = "dual encoders, full classifiers"
HOOKS = ("rows", "soft", "sample", "mix", "penalty")  # places for augmentations
TUNES = {  # settings that `treetop tune` tries
    "train.epochs": [4.0, 6.0, 10.0, 15.0],
    "encoder_optimizer.lr": [0.0001, 0.0003, 0.0006],
    "head_optimizer.lr": [0.001, 0.003, 0.01],
    "dropout": [0.1, 0.3, 0.5],
}


@dataclass(frozen=True, kw_only=True)
class Config(NetworkConfig):
    """Settings of `renee`."""

    encoder: TransformerConfig = setting(
        TransformerConfig(l2=True), "encoder (or a treetop model, as a warm start) and pooling"
    )
    label_rows: bool = setting(True, "add each label text as a training row with its own label")
    init: Init = setting(
        "auto", "initialise label vectors from label text, or with zeros; auto: from label text where it is informative"
    )
    init_scale: float = setting(15.0, "scale of the label-text initialisation", low=0.0)
    bias: bool = setting(True, "learn a bias per label")
    projection_dim: int = setting(0, "projection dimension; 0: no projection", low=0)
    dropout: float = setting(0.3, "dropout on the view", low=0.0, high=0.99)
    train: TrainConfig = setting(warmed_up(6, 1024), "training loop")
    validation: float = setting(0.0, "hold-out fraction of the documents, for early stopping", low=0.0, high=0.5)
    label_memory: Memory = setting("full", MEMORY)
    sgd: DescentConfig = setting(DescentConfig(), "SGD of the label vectors (label_memory=low)")

    def __post_init__(self) -> None:
        if self.label_memory == "low":
            no_average("label_memory", self.train)


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """Encoder, tokens and label vectors with their optimiser states; time on two CPU cores, or on the GPU."""
    size = EncoderSize.of(read_encoder_config(config.encoder.model))
    counts = count([_head(config, "", size.width * len(config.encoder.layers), dataset.n_labels)])
    low = counts.vectors if config.label_memory == "low" else 0.0
    counts = replace(counts, low=low, label_texts=float(config.init != "zero"))
    training = small_batches(dataset, config.train, config.min_steps_per_epoch)
    needs = forecast_member(dataset, size, counts, training, config.encoder.most_tokens)
    if not config.label_rows:
        return needs
    tokens = min(len(label_words(dataset.labels).blob) / 4.0, config.encoder.most_tokens * dataset.n_labels)
    more = learning_time(dataset.n_labels, tokens + 2.0 * dataset.n_labels, training.epochs, size, counts)
    return replace(needs, time=needs.time + more)


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Train encoder and label vectors on documents and label texts alike."""
    rows = dataset
    if config.label_rows and not _has_label_rows(dataset):
        excluded = excluded_labels(dataset)
        rows = with_rows_of(
            dataset, not_excluded(dataset, np.arange(dataset.n_labels), excluded, "label_rows"), excluded
        )
    prepared = prepare(rows, config.encoder, job, dropout=config.encoder_dropout)
    pooling = Pooling(config.encoder.pooling, config.encoder.layers)
    plan = _head(config, pooling.name, prepared.features.encoder.view_width(pooling), dataset.n_labels)
    training = small_batches(rows, config.train, config.min_steps_per_epoch)
    learning = Learning(
        encoder=config.encoder_optimizer,
        heads=config.head_optimizer,
        bias=config.bias,
        init=config.init,
        init_scale=config.init_scale,
        descent=config.sgd.at(training.batch_size) if config.label_memory == "low" else None,
    )
    tree = flat(dataset.n_labels)
    inputs, blueprint = prepared.learning(compiled=config.compile), Blueprint([plan], tree, learning)
    trained = train_network(rows, prepared, inputs, blueprint, training, job, validation=config.validation)
    levels = as_levels([trained.features.view_name(pooling)], tree, trained.ranks, [plan])
    return Model.over(dataset, {trained.features.name: trained.features}, [levels])


def _head(config: Config, view: str, width: int, n: int) -> HeadPlan:
    """All labels for every text."""
    length = config.embedding_norm if config.encoder.l2 else 0.0
    return HeadPlan(
        view=view, view_width=width, n=n, dimension=config.projection_dim, dropout=config.dropout, length=length
    )


def _has_label_rows(dataset: Dataset) -> bool:
    """Whether an augmentation has made label texts rows to learn from."""
    if dataset.roles is None:
        return False
    return bool(((dataset.roles == LABEL_TEXT) & dataset.learned).any())
