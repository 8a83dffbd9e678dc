"""Renee (MLSys 2023): every label for every text by plain cross-entropy, with label texts as further training rows.

Features: transformer, the mean of the last layer. Labels: their texts are rows that carry their own label, unless a
filter bars it for that text. Tree: none. Shortlist: everything. Rank: head. The own idea is that no shortlist is
needed: the gradient of a logit is its probability less the target, so blocks of logits are turned into gradients and
dropped, and memory follows neither texts nor labels. A label seen only as its own text is answered with too.
`encoder.encoder` may name a treetop model: that is how an encoder trained by `ngame` starts it.

Deviations: AdamW on the label vectors instead of SGD with momentum; vectors of one length while training, label
vectors begun at their texts and a bias for each label (`begin: zero`, `bias: false` and `encoder.l2: false` as in the
presets `paper-...` leave these out). `memory: low` keeps label vectors in bfloat16 and updates them by plain descent
while their gradient is made, rounded at random so that small steps are not lost: 2 bytes a number instead of 12.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from treetop.assemble.label_rows import allowed, barred_texts, with_rows_of
from treetop.assemble.members import MEMORY, Member, Memory, NetworkConfig, fit_members, no_average, small_batches
from treetop.assemble.neural_fit import as_levels, prepare, train_levels
from treetop.assemble.neural_forecast import EncoderSize, Numbers, forecast_member
from treetop.assemble.neural_start import Begin
from treetop.assemble.neural_tree import LevelPlan, TreeConfig
from treetop.core.config import setting
from treetop.core.dataset import LABEL_TEXT, Dataset
from treetop.core.forecast import Forecast
from treetop.core.work import Job
from treetop.features.encoder import Pooling
from treetop.features.sources import peek
from treetop.features.transformer import TransformerConfig
from treetop.model import Model
from treetop.partition.flat import flat
from treetop.train.optim import DescentConfig, ScheduleConfig
from treetop.train.task import TrainConfig

GROUP = "dual encoders, full classifiers"
HOOKS = ("rows", "soft", "sample", "mix", "penalty")  # places for augmentations


@dataclass(frozen=True, kw_only=True)
class Config(NetworkConfig):
    """Settings of `renee`."""

    encoder: TransformerConfig = setting(TransformerConfig(l2=True), "the encoder (or a treetop model) and its view")
    label_rows: bool = setting(True, "label texts are training rows with their own label")
    begin: Begin = setting("auto", "label vectors begin at their texts' vectors, at nothing; auto: if texts tell")
    size: float = setting(15.0, "how often a cosine with a label's text counts in its first margin", low=0.0)
    bias: bool = setting(True, "a number for each label beside its vector")
    bottleneck: int = setting(0, "width of label vectors; 0: the view's own", low=0)
    dropout: float = setting(0.3, "share of the view dropped while training", low=0.0, high=0.99)
    train: TrainConfig = setting(
        TrainConfig(epochs=6, batch=1024, schedule=ScheduleConfig(kind="linear", warmup=0.05)), "the loop"
    )
    validation: float = setting(0.0, "share of the documents held out for early stopping", low=0.0, high=0.5)
    memory: Memory = setting("full", MEMORY)
    descent: DescentConfig = setting(DescentConfig(), "how label vectors learn where memory is low")

    def __post_init__(self) -> None:
        if self.memory == "low":
            no_average("memory", self.train)


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """Encoder, tokens and label vectors with their optimiser states; time for two CPU cores."""
    size = EncoderSize.of(peek(config.encoder.encoder))
    vectors = float(dataset.n_labels * (config.bottleneck or size.width * len(config.encoder.layers)))
    low = vectors if config.memory == "low" else 0.0
    numbers = Numbers(vectors=vectors, scored=vectors, low=low, label_texts=config.begin != "zero")
    small = small_batches(dataset, config.train, config.steps)
    made = forecast_member(dataset, size, numbers, small, config.encoder.max_length)
    more = 1.0 + dataset.n_labels / max(1, len(dataset)) if config.label_rows else 1.0
    return replace(made, time=made.time * more)


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Train encoder and label vectors on documents and label texts alike."""
    return fit_members(dataset, 1, (), job, lambda _, own: _member(dataset, config, own))


def _member(dataset: Dataset, config: Config, job: Job) -> Member:
    rows = dataset
    if config.label_rows and not _has_label_rows(dataset):
        barred = barred_texts(dataset)
        rows = with_rows_of(dataset, allowed(dataset, np.arange(dataset.n_labels), barred, "label_rows"), barred)
    prepared = prepare(rows, config.encoder, job, dropout=config.encoder_dropout)
    pooling = Pooling(config.encoder.pooling, config.encoder.layers)
    width = prepared.transformer.encoder.view_width(pooling)
    length = config.length if config.encoder.l2 else 0.0
    plan = LevelPlan(pooling.name, width, bottleneck=config.bottleneck, dropout=config.dropout, length=length)
    training = small_batches(rows, config.train, config.steps)
    learning = TreeConfig(
        config.learn_encoder, config.learn_heads, bias=config.bias, begin=config.begin, size=config.size,
        low=config.descent.at(training.batch) if config.memory == "low" else None,
    )  # fmt: skip
    tree = flat(dataset.n_labels)
    trained = train_levels(
        rows, prepared, prepared.learning(compiled=config.compile), tree, [plan], learning,
        training=training, job=job, validation=config.validation,
    )  # fmt: skip
    view = trained.transformer.view_name(pooling)
    return [trained.transformer], [as_levels([view], tree, trained.heads, [plan])]


def _has_label_rows(dataset: Dataset) -> bool:
    """Whether an augmentation has made label texts rows to learn from."""
    if dataset.roles is None:
        return False
    return bool(((dataset.roles == LABEL_TEXT) & dataset.learned).any())
