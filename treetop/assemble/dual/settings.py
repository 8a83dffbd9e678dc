"""Settings of dual encoders, with and without a classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from treetop.core.config import setting
from treetop.core.errors import ConfigError
from treetop.features.encoder.transformer import TransformerConfig
from treetop.network.pool_heads import ClassifierConfig, DualConfig
from treetop.network.samplers.pools import PoolConfig
from treetop.network.settings import LearningConfig, no_average
from treetop.train.optim import AdamConfig, ScheduleConfig
from treetop.train.task import TrainConfig


@dataclass(frozen=True, kw_only=True)
class IndexConfig:
    """Which labels a text is compared with once all is learned."""

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
class SearchConfig(IndexConfig):
    """The same of two heads, and how their scores are added."""

    heads: Literal["both", "dual", "classifier"] = setting("both", "heads whose scores are added")
    raw: bool = setting(
        True,
        "the classifier's products as in training; otherwise cosines, as often as the dual ones (two stages: once)",
    )
    dual: float = setting(0.0, "how often the dual encoder's cosine counts; 0: as in training", low=0.0)
    classifier: float = setting(1.0, "weight of the classifier's score beside it", low=0.0)


@dataclass(frozen=True, kw_only=True)
class DualEncoderConfig(LearningConfig):
    """Settings of a dual encoder alone."""

    encoder: TransformerConfig = setting(TransformerConfig(), "the encoder and its view")
    frozen: bool = setting(False, "leave the encoder as it is and train the heads only (for CPUs)")
    dual: DualConfig = setting(DualConfig(), "the head that reads label texts")
    pool: PoolConfig = setting(PoolConfig(), "which texts and labels meet in a batch")
    search: IndexConfig = setting(IndexConfig(), "what a text is compared with")
    learn_encoder: AdamConfig = setting(AdamConfig(lr=2e-4), "how the encoder learns")
    learn_heads: AdamConfig = setting(AdamConfig(lr=4e-4), "how the layers of the heads learn")
    train: TrainConfig = setting(
        TrainConfig(epochs=20, batch=1024, schedule=ScheduleConfig(kind="linear", warmup=0.05)), "the loop"
    )
    steps: int = setting(16, "updates of an epoch aimed at: small data get smaller batches, down to 16", low=1)
    validation: float = setting(0.0, "share of the documents held out for early stopping", low=0.0, high=0.5)

    def __post_init__(self) -> None:
        if self.dual.weight == 0:
            raise ConfigError("dual.weight: 0, so nothing would be learned. Set it above 0.")
        if self.frozen and self.dual.dimension == 0:
            raise ConfigError("frozen: nothing would be learned. Give the dual head a layer: dual.dimension=384.")
        _check_shared(self)


@dataclass(frozen=True, kw_only=True)
class TwoHeadConfig(DualEncoderConfig):
    """Settings of a dual encoder with a classifier on the same encoder."""

    classifier: ClassifierConfig = setting(ClassifierConfig(), "the head with free label vectors")
    search: SearchConfig = setting(SearchConfig(), "what a text is compared with")
    learn_vectors: AdamConfig = setting(AdamConfig(lr=3e-3), "how free label vectors learn")

    def __post_init__(self) -> None:
        dual, classifier, heads = self.dual.weight > 0, self.classifier.weight > 0, self.search.heads
        if not dual and not classifier:
            raise ConfigError("dual.weight, classifier.weight: both 0, so nothing would be learned. Set one above 0.")
        if self.frozen and not classifier and self.dual.dimension == 0:
            raise ConfigError("frozen: nothing would be learned. Give the dual head a layer: dual.dimension=384.")
        if self.classifier.memory == "low":
            no_average("classifier.memory", self.train)
        if self.classifier.place == "host" and self.train.average != "none":
            raise ConfigError(
                "classifier.place: 'host' holds no averages of weights. Use train.average=none, or device."
            )
        if heads == "classifier" and not classifier:
            raise ConfigError(
                "search.heads: 'classifier', but classifier.weight is 0. Set it above 0, or search by 'dual'."
            )
        if heads == "dual" and not dual:
            raise ConfigError("search.heads: 'dual', but dual.weight is 0. Set it above 0, or search by 'classifier'.")
        if self.classifier.loss.pick == "all":
            _check_all_positives(self.pool)
        if not dual and self.pool.side == "labels" and self.pool.clustered:
            raise ConfigError("pool.side: clusters of labels need the dual encoder. Set pool.clustered=false.")
        _check_shared(self)


def _check_shared(config: DualEncoderConfig) -> None:
    if config.encoder.l2:
        raise ConfigError("encoder.l2: heads scale vectors themselves. Leave it false.")
    if config.dual.loss.pick == "all":
        _check_all_positives(config.pool)
    if config.pool.grow and not config.pool.cluster:
        raise ConfigError("pool.grow: clusters that are whole batches cannot grow. Set pool.cluster to 1 or more.")


def _check_all_positives(pool: PoolConfig) -> None:
    if pool.positives and pool.size:
        raise ConfigError(
            "loss.pick: 'all' needs every label of a text in the pool. Set pool.positives=0 (or pool.size=0)."
        )
