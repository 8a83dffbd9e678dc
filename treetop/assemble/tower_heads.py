"""Settings of dual encoders, and the heads that stand on their encoder while it learns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from treetop.assemble.members import MEMORY, LearningConfig, Memory, no_average
from treetop.core.config import setting
from treetop.core.errors import ConfigError
from treetop.features.towers import Tower
from treetop.features.transformer import TransformerConfig
from treetop.tensors.handover import to_array
from treetop.train.contrastive import LossConfig
from treetop.train.optim import AdamConfig, DescentConfig, ScheduleConfig
from treetop.train.pools import PoolConfig
from treetop.train.task import TrainConfig

First = Literal["identity", "xavier"]


@dataclass(frozen=True, kw_only=True)
class DualConfig:
    """The head that compares a text with the texts of labels, both at length 1."""

    weight: float = setting(1.0, "weight of its loss; 0: no such head", low=0.0)
    dimension: int = setting(0, "numbers of its vectors; 0: the encoder's own, without a layer", low=0, high=4096)
    tanh: bool = setting(True, "squash what the layer gives")
    first: First = setting("identity", "where the layer begins: it changes nothing, or at random")
    dropout: float = setting(0.0, "share of a vector dropped while training", low=0.0, high=0.99)
    scale: float = setting(20.0, "how often a cosine counts", low=0.01)
    loss: LossConfig = setting(LossConfig(), "what it learns from a pool")


@dataclass(frozen=True, kw_only=True)
class ClassifierConfig:
    """The head that compares a text with a free vector for each label."""

    weight: float = setting(1.0, "weight of its loss; 0: no such head", low=0.0)
    labels: Literal["pool", "all"] = setting(
        "pool", "labels scored: the pool, or all of them by BCE, logits never kept"
    )
    dimension: int = setting(0, "numbers of its vectors; 0: the encoder's own, without a layer", low=0, high=4096)
    first: First = setting("identity", "where the layer begins: it changes nothing, or at random")
    dropout: float = setting(0.1, "share of a text's vector dropped while training", low=0.0, high=0.99)
    label_dropout: float = setting(0.0, "share of a label's vector dropped while training", low=0.0, high=0.99)
    unit: bool = setting(False, "compare directions: texts and labels at length 1")
    length: float = setting(0.0, "length a text's vector is brought to; 0: as it is (1 where `unit`)", low=0.0)
    scale: float = setting(1.0, "how often a product counts", low=0.001)
    bias: bool = setting(True, "a number for each label beside its vector")
    vectors: Literal["text", "random"] = setting("text", "label vectors begin at those of their texts, or at random")
    size: float = setting(15.0, "how often a cosine with a label's text counts in its first margin", low=0.0)
    loss: LossConfig = setting(LossConfig(), "what it learns from a pool")
    memory: Memory = setting("full", MEMORY + " (labels=all only)")
    descent: DescentConfig = setting(DescentConfig(lr=30.0), "how label vectors learn where memory is low")
    place: Literal["device", "host"] = setting(
        "device", "label vectors and their states lie on the GPU, or in pinned memory of its host (labels=pool only)"
    )

    @property
    def text_length(self) -> float:
        """The length of a text's vector, 0: any."""
        return 1.0 if self.unit else self.length

    def __post_init__(self) -> None:
        if self.labels == "all" and self.unit:
            raise ConfigError("unit: all labels are scored by raw products. Use labels=pool, or unit=false.")
        if self.labels == "all" and self.label_dropout > 0:
            raise ConfigError("label_dropout: not with labels=all, whose vectors are never gathered. Use 0.")
        if self.labels == "pool" and self.memory == "low":
            raise ConfigError("memory: 'low' is for classifiers over all labels. Use labels=all, or full.")
        if self.labels == "all" and self.place == "host":
            raise ConfigError("place: 'host' is for classifiers over a pool of labels. Use labels=pool, or device.")


@dataclass(frozen=True, kw_only=True)
class SearchConfig:
    """What a text is compared with once all is learned."""

    heads: Literal["both", "dual", "classifier"] = setting("both", "heads whose scores are added")
    raw: bool = setting(
        True,
        "the classifier's products as in training; otherwise cosines, as often as the dual ones (two stages: once)",
    )
    dual: float = setting(0.0, "how often the dual encoder's cosine counts; 0: as in training", low=0.0)
    classifier: float = setting(1.0, "weight of the classifier's score beside it", low=0.0)
    rare: float = setting(
        0.0, "how much rare labels are lifted: so often the log of a label's texts is taken off", low=0.0, high=2.0
    )
    near: Literal["auto", "all", "lists", "graph"] = setting(
        "auto", "labels scored: all, those of near lists, or those a graph (faiss) leads to; auto: all up to 200,000"
    )
    probe: int = setting(512, "lists (of 256 labels) looked through", low=1)
    keep: int = setting(100, "labels a graph leads to", low=1)
    effort: int = setting(256, "labels held in mind on the way there", low=1)


@dataclass(frozen=True, kw_only=True)
class TowersConfig(LearningConfig):
    """Settings all dual encoders share."""

    encoder: TransformerConfig = setting(TransformerConfig(), "the encoder and its view")
    frozen: bool = setting(False, "leave the encoder as it is and train the heads only (for CPUs)")
    dual: DualConfig = setting(DualConfig(), "the head that reads label texts")
    classifier: ClassifierConfig = setting(ClassifierConfig(), "the head with free label vectors")
    pool: PoolConfig = setting(PoolConfig(), "which texts and labels meet in a batch")
    search: SearchConfig = setting(SearchConfig(), "what a text is compared with")
    learn_encoder: AdamConfig = setting(AdamConfig(lr=2e-4), "how the encoder learns")
    learn_heads: AdamConfig = setting(AdamConfig(lr=4e-4), "how the layers of the heads learn")
    learn_vectors: AdamConfig = setting(AdamConfig(lr=3e-3), "how free label vectors learn")
    train: TrainConfig = setting(
        TrainConfig(epochs=20, batch=1024, schedule=ScheduleConfig(kind="linear", warmup=0.05)), "the loop"
    )
    steps: int = setting(16, "updates of an epoch aimed at: small data get smaller batches, down to 16", low=1)
    validation: float = setting(0.0, "share of the documents held out for early stopping", low=0.0, high=0.5)

    def __post_init__(self) -> None:
        check(self)


def check(config: TowersConfig) -> None:
    """Refuse settings that do not belong together."""
    dual, classifier, heads = config.dual.weight > 0, config.classifier.weight > 0, config.search.heads
    if not dual and not classifier:
        raise ConfigError("dual.weight, classifier.weight: both 0, so nothing would be learned. Set one above 0.")
    if config.frozen and not classifier and config.dual.dimension == 0:
        raise ConfigError("frozen: nothing would be learned. Give the dual head a layer: dual.dimension=384.")
    if config.classifier.memory == "low":
        no_average("classifier.memory", config.train)
    if config.classifier.place == "host" and config.train.average != "none":
        raise ConfigError("classifier.place: 'host' holds no averages of weights. Use train.average=none, or device.")
    if config.encoder.l2:
        raise ConfigError("encoder.l2: heads scale vectors themselves. Leave it false.")
    if heads == "classifier" and not classifier:
        raise ConfigError(
            "search.heads: 'classifier', but classifier.weight is 0. Set it above 0, or search by 'dual'."
        )
    if heads == "dual" and not dual:
        raise ConfigError("search.heads: 'dual', but dual.weight is 0. Set it above 0, or search by 'classifier'.")
    if "all" in {config.dual.loss.pick, config.classifier.loss.pick} and config.pool.positives and config.pool.size:
        raise ConfigError(
            "loss.pick: 'all' needs every label of a text in the pool. Set pool.positives=0 (or pool.size=0)."
        )
    if config.pool.grow and not config.pool.cluster:
        raise ConfigError("pool.grow: clusters that are whole batches cannot grow. Set pool.cluster to 1 or more.")
    if not dual and config.pool.side == "labels" and config.pool.clustered:
        raise ConfigError("pool.side: clusters of labels need the dual encoder. Set pool.clustered=false.")


class TowerHead(nn.Module):
    """An optional layer on the encoder's vector, as `features.towers.Tower` does it later."""

    def __init__(self, width: int, dimension: int, *, tanh: bool, first: First, dropout: float) -> None:
        super().__init__()
        self.layer = nn.Linear(width, dimension) if dimension else None
        self.tanh = tanh and self.layer is not None
        self.dropout = nn.Dropout(dropout)
        self.width = dimension or width
        if self.layer is not None:
            nn.init.zeros_(self.layer.bias)
            if first == "xavier":
                nn.init.xavier_uniform_(self.layer.weight)
            elif dimension < width:
                nn.init.orthogonal_(self.layer.weight)
            else:
                nn.init.eye_(self.layer.weight)

    def forward(self, base: Tensor) -> Tensor:
        h = base.float()
        h = h if self.layer is None else self.layer(h)
        made: Tensor = self.dropout(torch.tanh(h) if self.tanh else h)
        return made

    def tower(self, name: str, *, unit: bool, factor: float) -> Tower:
        """The same as data."""
        weight = None if self.layer is None else to_array(self.layer.weight.float()).copy()
        bias = None if self.layer is None else to_array(self.layer.bias.float()).copy()
        return Tower(name, weight, bias, self.tanh, unit, float(factor))


def of_length(h: Tensor, length: float) -> Tensor:
    """Rows brought to a length; 0: as they are."""
    return length * F.normalize(h, dim=1) if length else h
