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
from treetop.train.optim import AdamConfig
from treetop.train.task import TrainConfig, warmed_up


@dataclass(frozen=True, kw_only=True)
class IndexConfig:
    """Which labels a text is compared with in prediction."""

    logit_adjustment: float = setting(0.0, "logit adjustment τ: subtract τ · log(label frequency)", low=0.0, high=2.0)
    index: Literal["auto", "exact", "ivf", "hnsw"] = setting(
        "auto",
        "label search: exact, inverted lists (IVF), or an HNSW graph (faiss); auto: exact up to 1,000,000 labels",
    )
    nprobe: int = setting(
        0, "inverted lists (IVF, 256 labels each) probed; 0: as few as find 98 % of the exact search's labels", low=0
    )
    shortlist: int = setting(100, "labels retrieved from the HNSW graph", low=1)
    ef_search: int = setting(256, "HNSW efSearch", low=1)


@dataclass(frozen=True, kw_only=True)
class SearchConfig(IndexConfig):
    """The same for two heads, and how their scores are added."""

    heads: Literal["both", "dual", "classifier"] = setting("both", "heads whose scores are joined")
    fusion: Literal["learnt", "fixed"] = setting(
        "learnt", "joining: learnt on held-out documents (if there are any), or fixed: a sum with the weights below"
    )
    classifier_score: Literal["logit", "cosine"] = setting(
        "logit", "classifier score: the logit as in training, or a cosine at the dual encoder's scale (two stages: 1)"
    )
    dual_scale: float = setting(0.0, "scale of the dual encoder's cosine; 0: as in training", low=0.0)
    classifier_weight: float = setting(1.0, "weight of the classifier score", low=0.0)


@dataclass(frozen=True, kw_only=True)
class DualEncoderConfig(LearningConfig):
    """Settings of a dual encoder alone."""

    encoder: TransformerConfig = setting(TransformerConfig(), "encoder and pooling")
    frozen: bool = setting(False, "freeze the encoder and train only the heads (for CPUs)")
    dual: DualConfig = setting(DualConfig(), "dual-encoder head (label vectors from label text)")
    pool: PoolConfig = setting(PoolConfig(), "mini-batches and label pools")
    search: IndexConfig = setting(IndexConfig(), "label search and score fusion")
    encoder_optimizer: AdamConfig = setting(AdamConfig(lr=2e-4), "optimiser of the encoder")
    head_optimizer: AdamConfig = setting(AdamConfig(lr=4e-4), "optimiser of the heads' projections")
    train: TrainConfig = setting(warmed_up(20, 1024), "training loop")
    min_steps_per_epoch: int = setting(
        16, "target updates per epoch: small data sets get smaller mini-batches, down to 16", low=1
    )
    validation: float = setting(0.0, "hold-out fraction of the documents, for early stopping", low=0.0, high=0.5)

    def __post_init__(self) -> None:
        if self.dual.weight == 0:
            raise ConfigError("dual.weight: 0, so nothing would be learned. Set it above 0.")
        if self.frozen and self.dual.projection_dim == 0:
            raise ConfigError(
                "frozen: nothing would be learned. Give the dual head a projection: dual.projection_dim=384."
            )
        _check_shared(self)


@dataclass(frozen=True, kw_only=True)
class TwoHeadConfig(DualEncoderConfig):
    """Settings of a dual encoder with a classifier on the same encoder."""

    classifier: ClassifierConfig = setting(ClassifierConfig(), "classifier head (free label vectors)")
    search: SearchConfig = setting(SearchConfig(), "label search and score fusion")
    label_optimizer: AdamConfig = setting(AdamConfig(lr=3e-3), "optimiser of the free label vectors")

    def __post_init__(self) -> None:
        dual, classifier, heads = self.dual.weight > 0, self.classifier.weight > 0, self.search.heads
        if not dual and not classifier:
            raise ConfigError("dual.weight, classifier.weight: both 0, so nothing would be learned. Set one above 0.")
        if self.frozen and not classifier and self.dual.projection_dim == 0:
            raise ConfigError(
                "frozen: nothing would be learned. Give the dual head a projection: dual.projection_dim=384."
            )
        if self.classifier.label_memory == "low":
            no_average("classifier.label_memory", self.train)
        if self.classifier.offload and self.train.average != "none":
            raise ConfigError(
                "classifier.offload: does not support weight averaging. Use train.average=none, or offload=false."
            )
        if heads == "classifier" and not classifier:
            raise ConfigError(
                "search.heads: 'classifier', but classifier.weight is 0. Set it above 0, or search by 'dual'."
            )
        if heads == "dual" and not dual:
            raise ConfigError("search.heads: 'dual', but dual.weight is 0. Set it above 0, or search by 'classifier'.")
        if self.classifier.loss.positive_set == "all":
            _check_all_positives(self.pool)
        if not dual and self.pool.queries == "labels" and self.pool.clustered:
            raise ConfigError("pool.queries: clusters of labels need the dual encoder. Set pool.clustered=false.")
        _check_shared(self)


def _check_shared(config: DualEncoderConfig) -> None:
    if config.encoder.l2:
        raise ConfigError("encoder.l2: the heads normalise embeddings themselves. Leave it false.")
    if config.dual.loss.positive_set == "all":
        _check_all_positives(config.pool)
    if config.pool.curriculum and not config.pool.cluster_size:
        raise ConfigError(
            "pool.curriculum: clusters that are whole batches cannot grow. Set pool.cluster_size to 1 or more."
        )


def _check_all_positives(pool: PoolConfig) -> None:
    if pool.positives and pool.size:
        raise ConfigError(
            "loss.positive_set: 'all' needs every label of a text in the pool. Set pool.positives=0 (or pool.size=0)."
        )
