"""What label vectors offer to a head."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor, nn

from treetop.train.task import Table


class LabelVectors(Protocol):
    """Vectors (n, width) and biases (n,) of labels or nodes."""

    n: int
    width: int

    @property
    def module(self) -> nn.Module | None:
        """Weights that the loop's optimiser updates."""
        ...

    @property
    def table(self) -> Table | None:
        """Weights that update themselves."""
        ...

    def init(self, vectors: Tensor, bias: Tensor | None = None) -> None:
        """Start at these."""
        ...

    def logits(self, h: Tensor, ids: Tensor | None) -> Tensor:
        """(rows, candidates); None: all labels in order; those of padding (-1) mean nothing."""
        ...

    def vectors(self, ids: Tensor) -> Tensor:
        """(ids, width) with a graph, for penalties."""
        ...

    def whole(self) -> tuple[Tensor, Tensor]:
        """All vectors and biases as they are now."""
        ...
