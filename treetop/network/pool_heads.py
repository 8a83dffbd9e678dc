"""Heads on a pool of labels that all rows of a batch share: label vectors from text, or free ones.

A head's loss needs the whole batch (softmax over the pool, in both directions), unlike the row-wise ones of `head.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from treetop.core.config import setting
from treetop.core.errors import ConfigError
from treetop.features.encoder.towers import Tower
from treetop.network.losses.settings import LossConfig
from treetop.network.projection import Init, TowerProjection, scaled_to
from treetop.network.settings import MEMORY, Memory
from treetop.network.vectors.full import EveryLabel
from treetop.network.vectors.full_low import table_of
from treetop.network.vectors.rows import RowTable
from treetop.tensors.devices import World
from treetop.tensors.handover import to_array
from treetop.train.optim import AdamConfig, DescentConfig


@dataclass(frozen=True, kw_only=True)
class DualConfig:
    """The head that compares a text with label texts by cosine."""

    weight: float = setting(1.0, "loss weight; 0: drop this head", low=0.0)
    projection_dim: int = setting(0, "projection dimension; 0: no projection", low=0, high=4096)
    tanh: bool = setting(True, "tanh after the projection")
    projection_init: Init = setting("identity", "initialisation of the projection: identity, or Xavier")
    dropout: float = setting(0.0, "dropout on text and label embeddings", low=0.0, high=0.99)
    scale: float = setting(20.0, "scale (inverse temperature) of the cosine", low=0.01)
    loss: LossConfig = setting(LossConfig(), "loss on the pool")


@dataclass(frozen=True, kw_only=True)
class ClassifierConfig:
    """The head that compares a text with a free vector for each label."""

    weight: float = setting(1.0, "loss weight; 0: drop this head", low=0.0)
    labels: Literal["pool", "all"] = setting(
        "pool", "labels scored: the pool, or all with BCE (logits are never materialised)"
    )
    projection_dim: int = setting(0, "projection dimension; 0: no projection", low=0, high=4096)
    projection_init: Init = setting("identity", "initialisation of the projection: identity, or Xavier")
    dropout: float = setting(0.1, "dropout on the text embedding", low=0.0, high=0.99)
    label_dropout: float = setting(0.0, "dropout on the label vectors", low=0.0, high=0.99)
    cosine: bool = setting(False, "cosine: L2-normalise text embeddings and label vectors")
    embedding_norm: float = setting(
        0.0, "norm that text embeddings are scaled to; 0: not normalised (1 if `cosine`)", low=0.0
    )
    scale: float = setting(1.0, "scale (inverse temperature) of the inner product", low=0.001)
    bias: bool = setting(True, "learn a bias per label")
    init: Literal["text", "random"] = setting("text", "initialise label vectors from label text, or at random")
    init_scale: float = setting(15.0, "scale of the label-text initialisation", low=0.0)
    loss: LossConfig = setting(LossConfig(), "loss on the pool")
    label_memory: Memory = setting("full", MEMORY + " (labels=all only)")
    sgd: DescentConfig = setting(DescentConfig(lr=30.0), "SGD of the label vectors (label_memory=low)")
    offload: bool = setting(
        False, "keep label vectors and optimiser state in pinned host memory, not on the GPU (labels=pool only)"
    )

    @property
    def text_length(self) -> float:
        """The norm that text vectors are scaled to; 0: not scaled."""
        return 1.0 if self.cosine else self.embedding_norm

    @property
    def log_odds(self) -> bool:
        """Whether its logits are log odds, with labels independent of each other."""
        return self.labels == "all" or self.loss.kind == "bce"

    def __post_init__(self) -> None:
        if self.labels == "all" and self.cosine:
            raise ConfigError("cosine: labels=all scores raw inner products. Use labels=pool, or cosine=false.")
        if self.labels == "all" and self.label_dropout > 0:
            raise ConfigError("label_dropout: not supported with labels=all. Use 0, or labels=pool.")
        if self.labels == "pool" and self.label_memory == "low":
            raise ConfigError("label_memory: 'low' is for classifiers over all labels. Use labels=all, or full.")
        if self.labels == "all" and self.offload:
            raise ConfigError("offload: only for classifiers over a pool of labels. Use labels=pool, or offload=false.")


class PoolHead(ABC):
    """A head on a pool of labels: text vectors, and their logits with the pool."""

    name: str
    reads_neighbours = False  # whether a label's vector depends on its documents
    reads_labels = False  # whether label texts go through the encoder with the rows
    query_scale = 1.0  # of a text's vector when it is compared with all labels
    scale: float  # of logits
    table: RowTable | EveryLabel | None = None
    weight: float
    loss: LossConfig
    projection: TowerProjection

    @abstractmethod
    def vectors(self, base: Tensor) -> Tensor:
        """(rows, width) of texts whose encoder vectors are `base`."""

    @abstractmethod
    def logits(self, queries: Tensor, labels: Tensor) -> Tensor:
        """(queries, pool) with the pool's labels: vectors of their texts, or rows of the head's table."""

    def tower(self, *, unit: bool, factor: float) -> Tower:
        """The head's projection as part of a model."""
        layer = self.projection.layer
        weight = None if layer is None else to_array(layer.weight.float()).copy()
        bias = None if layer is None else to_array(layer.bias.float()).copy()
        return Tower(self.name, weight, bias, self.projection.tanh, unit, float(factor))


class TextHead(PoolHead):
    """Label vectors are encoded label texts; logits are scaled cosines."""

    name = "dual"
    reads_labels = True

    def __init__(self, config: DualConfig, width: int) -> None:
        self.weight, self.loss, self.scale, self.query_scale = config.weight, config.loss, config.scale, config.scale
        self.projection = TowerProjection(
            width, config.projection_dim, tanh=config.tanh, init=config.projection_init, dropout=config.dropout
        )

    def vectors(self, base: Tensor) -> Tensor:
        return F.normalize(self.projection(base), dim=1)

    def logits(self, queries: Tensor, labels: Tensor) -> Tensor:
        return self.scale * (queries @ labels.T)


class FreeHead(PoolHead):
    """A free vector for each label, of which a step reads those of the pool, or all."""

    name = "classifier"

    def __init__(self, config: ClassifierConfig, width: int) -> None:
        self.config, self.weight, self.loss, self.scale = config, config.weight, config.loss, config.scale
        self.projection = TowerProjection(
            width, config.projection_dim, tanh=False, init=config.projection_init, dropout=config.dropout
        )

    def build_table(
        self, n: int, learn: AdamConfig, device: torch.device, *, batch: int, world: World, seed: int
    ) -> None:
        """Create the label vectors; those of a pool are initialised at random."""
        c, width = self.config, self.projection.width
        if c.labels == "all":
            how = c.sgd.at(batch) if c.label_memory == "low" else learn
            self.table = table_of(n, width, how, device, bias=c.bias, world=world, seed=seed)
            return
        self.table = RowTable(n, width, learn, device, bias=c.bias, world=world, host=c.offload)
        self.table.init(nn.init.xavier_uniform_(torch.empty(n, width)))

    def vectors(self, base: Tensor) -> Tensor:
        return scaled_to(self.projection(base), self.config.text_length)

    def logits(self, queries: Tensor, labels: Tensor) -> Tensor:
        c = self.config
        vectors = F.dropout(labels[:, : self.projection.width], c.label_dropout, self.projection.training)
        s = c.scale * (queries @ (F.normalize(vectors, dim=1) if c.cosine else vectors).T)
        return s + labels[:, -1] if c.bias else s

    def label_rows(self) -> tuple[Tensor, Tensor]:
        """(vectors, biases) of all labels, scaled as in the logits."""
        if self.table is None:
            raise ValueError("label vectors were not built")
        vectors, bias = self.table.whole()
        c = self.config
        return c.scale * (F.normalize(vectors, dim=1) if c.cosine else vectors.float()), bias
