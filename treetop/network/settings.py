"""The settings all networks share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.errors import ConfigError
from treetop.train.optim import AdamConfig, ScheduleConfig
from treetop.train.task import TrainConfig

LEAST = 16  # rows of a batch
Memory = Literal["full", "low"]
MEMORY = "label vectors: float32 with Adam's moments (12 bytes a number), or bfloat16 by plain descent (2)"


@dataclass(frozen=True, kw_only=True)
class LearningConfig:
    """How the networks of all recipes are trained."""

    encoder_dropout: float | None = setting(None, "dropout inside the encoder; null: its own", low=0.0, high=0.99)
    learn_encoder: AdamConfig = setting(AdamConfig(lr=3e-4), "how the encoder learns")
    learn_heads: AdamConfig = setting(AdamConfig(lr=3e-3), "how the heads learn")
    train: TrainConfig = setting(
        TrainConfig(epochs=5, batch=1024, schedule=ScheduleConfig(kind="linear", warmup=0.05)),
        "the loop; its epochs are those of all levels together",
    )
    steps: int = setting(100, "updates of an epoch aimed at: small data get smaller batches, down to 16", low=1)
    compile: bool = setting(False, "let torch compile the encoder's layers on a GPU (10 to 20 s once; long runs only)")


@dataclass(frozen=True, kw_only=True)
class NetworkConfig(LearningConfig):
    """The same of heads over an encoder's own view."""

    length: float = setting(10.0, "length of a text's vector while training where encoder.l2 is set", low=0.1)


def no_average(name: str, training: TrainConfig) -> None:
    """Refuse averages of vectors that are kept in two bytes a number: these could not follow them."""
    if training.average != "none":
        raise ConfigError(f"{name}: 'low' holds no averages of weights. Use train.average=none, or memory=full.")


def small_batches(dataset: Dataset, training: TrainConfig, steps: int) -> TrainConfig:
    """At least `steps` updates an epoch: five passes over a thousand texts in batches of a thousand would be five."""
    return replace(training, batch=min(training.batch, max(LEAST, int(dataset.learned.sum()) // steps)))
