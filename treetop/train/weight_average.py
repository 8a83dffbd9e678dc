"""Running averages of weights: exponential (EMA) and stochastic weight averaging (SWA)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch

Kind = Literal["none", "ema", "swa"]


class Average:
    """A second copy of some tensors that follows them; `exchange` swaps it in and out again."""

    def __init__(self, tensors: Sequence[torch.Tensor], kind: Kind, decay: float = 0.999) -> None:
        self.kind, self.decay = kind, decay
        self.tensors = list(tensors)
        self.values: list[torch.Tensor] = []
        self.count = 0  # updates seen

    @torch.no_grad()
    def update(self) -> None:
        """Take in the present weights."""
        if self.count == 0:
            self.values = [tensor.detach().clone() for tensor in self.tensors]
        else:
            # EMA starts as a plain mean, so that early weights do not linger; SWA stays one.
            weight = 1.0 / (self.count + 1)
            if self.kind == "ema":
                weight = max(weight, 1.0 - self.decay)
            torch._foreach_lerp_(self.values, self.tensors, weight)
        self.count += 1

    @torch.no_grad()
    def exchange(self) -> None:
        """Swap averages and weights; calling it twice changes nothing."""
        if self.count == 0:
            return
        copies = [tensor.detach().clone() for tensor in self.tensors]
        torch._foreach_copy_(self.tensors, self.values)
        torch._foreach_copy_(self.values, copies)
