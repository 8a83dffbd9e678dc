"""The settings all networks share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.errors import ConfigError
from treetop.train.optim import AdamConfig
from treetop.train.task import TrainConfig, warmed_up

LEAST = 16  # rows of a batch
Memory = Literal["full", "low"]
MEMORY = "label vectors: float32 with Adam's moments (12 bytes per parameter), or bfloat16 with plain SGD (2 bytes)"


@dataclass(frozen=True, kw_only=True)
class LearningConfig:
    """How the networks of all recipes are trained."""

    encoder_dropout: float | None = setting(
        None, "dropout in the encoder; null: as in its own configuration", low=0.0, high=0.99
    )
    encoder_optimizer: AdamConfig = setting(AdamConfig(lr=3e-4), "optimiser of the encoder")
    head_optimizer: AdamConfig = setting(AdamConfig(lr=3e-3), "optimiser of the heads")
    train: TrainConfig = setting(warmed_up(5, 1024), "training loop; epochs are shared by all levels")
    min_steps_per_epoch: int = setting(
        100, "target updates per epoch: small data sets get smaller mini-batches, down to 16", low=1
    )
    compile: bool = setting(False, "torch.compile the encoder layers on a GPU (takes 10 to 20 s; for long runs)")


@dataclass(frozen=True, kw_only=True)
class NetworkConfig(LearningConfig):
    """The same for heads over an encoder's own view."""

    embedding_norm: float = setting(10.0, "norm of text embeddings in training (with encoder.l2)", low=0.1)


def no_average(name: str, training: TrainConfig) -> None:
    """Refuse averages of vectors that are kept in two bytes a number: these could not follow them."""
    if training.average != "none":
        raise ConfigError(
            f"{name}: 'low' does not support weight averaging. Use train.average=none, or label_memory=full."
        )


def small_batches(dataset: Dataset, training: TrainConfig, steps: int) -> TrainConfig:
    """At least `steps` updates an epoch: five passes over a thousand texts in batches of a thousand would be five."""
    return replace(training, batch_size=min(training.batch_size, max(LEAST, int(dataset.learned.sum()) // steps)))
