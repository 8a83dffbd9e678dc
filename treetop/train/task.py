"""What the loop trains, how long, and what it reports."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from treetop.core.config import setting
from treetop.train.batches import Batch, Loaded, Rows
from treetop.train.optim import AdamConfig, ScheduleConfig
from treetop.train.weight_average import Kind


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How long and in what steps to train."""

    epochs: float = setting(10.0, "epochs over the training rows", low=1e-6, high=1e6)
    batch_size: int = setting(256, "mini-batch size", low=1)
    accumulate: int = setting(
        1, "gradient accumulation: micro-batches per update; raised automatically when out of memory", low=1
    )
    schedule: ScheduleConfig = setting(ScheduleConfig(), "learning-rate schedule")
    clip_norm: float = setting(0.0, "gradient-norm clipping per parameter group; 0: off", low=0.0)
    average: Kind = setting("none", "weight averaging: none, exponential moving (ema) or stochastic (swa)")
    ema_decay: float = setting(0.999, "decay rate of the ema", low=0.0, high=0.999999)
    average_from: float = setting(0.5, "fraction of the steps after which swa starts", low=0.0, high=1.0)
    average_every: int = setting(1, "steps between two updates of the average", low=1)
    patience: int = setting(
        0, "early stopping: epochs without a better score on the documents of validation; 0: off", low=0
    )
    cuda_graphs: bool = setting(
        True, "capture training steps as CUDA graphs and replay them, which saves most host overhead"
    )
    checkpoint_seconds: float = setting(
        300.0, "seconds after which a checkpoint is due; one is due after every tenth of the run, too", low=0.0
    )


def warmed_up(
    epochs: float, batch_size: int, kind: Literal["linear", "cosine"] = "linear", warmup: float = 0.05
) -> TrainConfig:
    """The default of most recipes: linear warm-up over a fraction of the steps, then decay to zero."""
    return TrainConfig(epochs=epochs, batch_size=batch_size, schedule=ScheduleConfig(kind=kind, warmup=warmup))


class Table(Protocol):
    """Weights that keep their own gradients and states; the loop calls them to apply or drop gradients."""

    def prepare(self, factor: float, *, fuse: bool, value: bool) -> None:
        """Say what comes: the rate's factor, whether to update while going forward, whether the loss is wanted."""
        ...

    def apply(self) -> None:
        """Update with what gathered since `prepare`."""
        ...

    def forget(self) -> None:
        """Drop what gathered since `prepare`."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Everything a later run needs, by name; filled in place on resume."""
        ...

    def weights(self) -> dict[str, Tensor]:
        """What averaging and the final model take."""
        ...

    def divided(self) -> dict[str, int]:
        """Tensors of `state` and `weights` whose rows are divided among processes, and their rows in all of them."""
        ...


@dataclass(frozen=True)
class Validation:
    """Figures on documents that are not trained on, by name (higher is better).

    `score` is used by early stopping; None: the figures are only reported.
    """

    figures: Mapping[str, float]
    score: float | None = None


class Task(Protocol):
    """What is trained."""

    device: torch.device

    @property
    def modules(self) -> Mapping[str, tuple[nn.Module, AdamConfig]]:
        """Dense weights by group."""
        ...

    @property
    def tables(self) -> Mapping[str, Table]:
        """Weights that update themselves."""
        ...

    def state(self) -> Mapping[str, Tensor]:
        """What else a checkpoint must keep; filled in place on resume."""
        ...

    @property
    def low(self) -> Collection[str]:
        """Modules that compute in the device's own number type."""
        ...

    def load(self, batch: Batch, static: bool) -> Loaded:
        """The batch on the device; `static` asks for rounded shapes and a key, so that the step can be recorded."""
        ...

    def loss(self, loaded: Loaded) -> Tensor:
        """The batch's share of the step's loss: the sum over its rows divided by `batch.total`."""
        ...

    def tokens(self, rows: Rows) -> int:
        """Real tokens in these rows, for the tokens per second shown."""
        ...

    def validate(self) -> Validation | None:
        """Figures of the present weights on documents that are not trained on; None: there are none."""
        ...


@dataclass
class Result:
    """What a run did."""

    steps: int
    seconds: float
    tokens: int
    loss: float
    best: float | None
    micro_batches: int
    memory: int
    history: list[dict[str, Any]] = field(default_factory=list)
