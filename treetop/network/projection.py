"""Between a view and the label vectors: scaling, dropout, a linear layer, tanh; each optional."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from treetop.tensors.sequences import Sequences

Init = Literal["identity", "xavier"]


class Projection(nn.Module):
    """view → (scaled to `length`) → dropout → linear layer to `dimension`; 0: no scaling, no layer.

    Of a token sequence the states are dropped out, nothing else.
    """

    def __init__(self, view_width: int, dimension: int = 0, *, dropout: float = 0.0, length: float = 0.0) -> None:
        super().__init__()
        self.length = length
        self.dropout = nn.Dropout(dropout)
        self.layer = nn.Linear(view_width, dimension) if dimension else None
        self.width = dimension or view_width

    def forward(self, view: Any) -> Any:
        if isinstance(view, Sequences):
            return Sequences(self.dropout(view.states), view.there)
        h = view.float()
        h = self.dropout(self.length * F.normalize(h, dim=1) if self.length else h)
        return h if self.layer is None else self.layer(h)


class TowerProjection(nn.Module):
    """view → linear layer to `dimension` → tanh → dropout, like `features.towers.Tower` in prediction."""

    def __init__(self, view_width: int, dimension: int, *, tanh: bool, init: Init, dropout: float) -> None:
        super().__init__()
        self.layer = nn.Linear(view_width, dimension) if dimension else None
        self.tanh = tanh and self.layer is not None
        self.dropout = nn.Dropout(dropout)
        self.width = dimension or view_width
        if self.layer is not None:
            nn.init.zeros_(self.layer.bias)
            if init == "xavier":
                nn.init.xavier_uniform_(self.layer.weight)
            elif dimension < view_width:
                nn.init.orthogonal_(self.layer.weight)
            else:
                nn.init.eye_(self.layer.weight)

    def forward(self, view: Tensor) -> Tensor:
        h = view.float()
        h = h if self.layer is None else self.layer(h)
        return self.dropout(torch.tanh(h) if self.tanh else h)


def scaled_to(h: Tensor, length: float) -> Tensor:
    """Rows scaled to a length; 0: as they are."""
    return length * F.normalize(h, dim=1) if length else h
