"""Free vectors of few nodes: all are scored in every step and updated by the loop's optimiser."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from treetop.network.vectors.contract import Free, GivesLogits, GivesRows


class Dense(nn.Module, Free, GivesLogits, GivesRows):
    """(n, width) vectors and biases as a linear layer."""

    table = None
    from_texts = False

    def __init__(self, n: int, width: int) -> None:
        super().__init__()
        self.n, self.width = n, width
        self.layer = nn.Linear(width, n)

    @property
    def module(self) -> nn.Module:
        return self

    @torch.no_grad()
    def init(self, vectors: Tensor, bias: Tensor | None = None) -> None:
        self.layer.weight.copy_(vectors)
        if bias is not None:
            self.layer.bias.copy_(bias)

    def logits(self, h: Tensor, ids: Tensor | None) -> Tensor:
        logits_: Tensor = self.layer(h)
        return logits_ if ids is None else logits_.gather(1, ids.clamp_min(0))

    def vectors(self, ids: Tensor) -> Tensor:
        return self.layer.weight[ids]

    def whole(self) -> tuple[Tensor, Tensor]:
        return self.layer.weight, self.layer.bias
