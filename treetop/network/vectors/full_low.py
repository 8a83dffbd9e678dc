"""The full classifier in bfloat16 in training: plain SGD with stochastic rounding."""

from __future__ import annotations

import torch
from torch import Tensor

from treetop.core.errors import ConfigError
from treetop.kernels.gpu.full_bce import Loss, Positives
from treetop.kernels.gpu.full_bce_low import Descent, LowRows, full_descent
from treetop.network.vectors.full import EveryLabel, FullTable
from treetop.tensors.devices import ALONE, World
from treetop.train.optim import AdamConfig, DescentConfig


class LowTable(EveryLabel):
    """bfloat16 vectors without moments or stored gradients: updated in the pass that computes the gradient.

    So each micro-batch updates. A step repeated because memory ran out after an update changes nothing more.
    """

    def __init__(
        self,
        n: int,
        width: int,
        config: DescentConfig,
        device: torch.device,
        *,
        bias: bool = True,
        world: World = ALONE,
        seed: int = 0,
    ) -> None:
        super().__init__(n, width, device, rate=config.lr, bias=bias, world=world, kind=torch.bfloat16)
        self.config = config
        self.draw = torch.tensor([seed & 0x7FFFFFFF, 0], dtype=torch.int32, device=device)  # seed, updates made
        self.made = False  # by an earlier try of this step

    def learn(self, h: Tensor, positives: Positives, scale: float) -> tuple[Tensor, Tensor]:
        decay = 0.0 if self.updated else self.config.weight_decay  # once a step
        rule = Descent(0.0) if self.made else Descent(self.rates.now[0], decay, self.draw)
        table = LowRows(self._weight, self._bias, self.low, self.learns_bias)
        found = full_descent(h, table, positives, rule, scale=scale, value=self.value)
        self.draw[1] += 1
        self.updated = True
        return found

    # --- the loop's side ---

    def prepare(self, factor: float, *, fuse: bool, value: bool) -> None:
        """A step that is prepared again was cut short: what it made stays."""
        self.rates.set(factor)
        self.value, self.made = value, self.updated

    def forget(self) -> None:
        """Nothing is kept for later."""

    def apply(self) -> None:
        self.updated = False

    def state(self) -> dict[str, Tensor]:
        return {"weight": self.weight, "bias": self.bias, "draw": self.draw}


def table_of(
    n: int,
    width: int,
    learn: AdamConfig | DescentConfig,
    device: torch.device,
    *,
    loss: Loss = "bce",
    bias: bool,
    world: World,
    seed: int,
    separate: bool = False,
) -> FullTable | LowTable:
    """The table that learns in this way; `separate` as in `FullTable`."""
    if isinstance(learn, AdamConfig):
        return FullTable(n, width, learn, device, loss=loss, bias=bias, world=world, separate=separate)
    if separate or loss != "bce":
        raise ConfigError("label_memory: 'low' supports no regulariser and no loss but BCE. Use label_memory=full.")
    return LowTable(n, width, learn, device, bias=bias, world=world, seed=seed)
