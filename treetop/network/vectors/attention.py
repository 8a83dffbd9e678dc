"""Label attention in training (AttentionXML): a vector per label that reads the token sequence, and shared layers.

Vectors, and weights of their own where labels have some, are rows of one table that are gathered and updated only where
they are candidates; the shared layers are updated by the loop's optimiser.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from treetop.network.vectors.contract import BecomesRank, Free, GivesLogits
from treetop.network.vectors.rows import RowTable
from treetop.rank.attention import Attention
from treetop.tensors import label_attention
from treetop.tensors.handover import to_float32
from treetop.tensors.label_attention import LabelVectors, Layers
from treetop.tensors.sequences import Sequences
from treetop.train.optim import AdamConfig


@dataclass(frozen=True, kw_only=True)
class AttentionPlan:
    """Label attention before anything is built."""

    hidden: tuple[int, ...]  # dimensions of the shared layers
    own: bool  # whether labels have weights of their own beside the shared layers
    tokens: float  # of a text, and
    candidates: int = 0  # of a row, as forecasts count them; 0: all labels

    @property
    def tables(self) -> int:
        """Vectors of each label."""
        return 1 + self.own


class SharedLayers(nn.Module):
    """Linear layers, ReLU between them; the last one gives a single number."""

    def __init__(self, width: int, hidden: tuple[int, ...]) -> None:
        super().__init__()
        sizes = [width, *hidden, 1]
        steps = [nn.Linear(a, b) for a, b in pairwise(sizes)]
        for step in steps:
            nn.init.xavier_uniform_(step.weight)
            nn.init.zeros_(step.bias)
        self.steps: Any = nn.ModuleList(steps)

    def layers(self) -> Layers:
        """Weights and biases, in order."""
        return [(step.weight, step.bias) for step in self.steps]

    @torch.no_grad()
    def copy(self, above: Attention) -> None:
        """Start from those of another level."""
        for step, (weight, bias) in zip(self.steps, above.layers, strict=True):
            step.weight.copy_(torch.from_numpy(np.array(weight)))
            step.bias.copy_(torch.from_numpy(np.array(bias)))


class AttentionTable(Free, GivesLogits, BecomesRank):
    """(n, width) attention vectors, weights of their own if asked for, biases if asked for."""

    from_texts = False

    def __init__(
        self, n: int, width: int, plan: AttentionPlan, config: AdamConfig, device: torch.device, *, bias: bool,
        above: Attention | None = None,
    ) -> None:  # fmt: skip
        """`above` is a trained level whose shared layers this one starts from."""
        self.n, self.width, self.plan = n, width, plan
        self.shared = SharedLayers(width, plan.hidden).to(device)
        if above is not None:
            self.shared.copy(above)
        self.rows = RowTable(n, plan.tables * width, config, device, bias=bias)

    @property
    def module(self) -> nn.Module:
        return self.shared

    @property
    def table(self) -> RowTable:
        return self.rows

    def init(self, vectors: Tensor, bias: Tensor | None = None) -> None:
        """Weights of their own start at zero."""
        self.rows.init(torch.cat([vectors, vectors.new_zeros(self.n, self.rows.width - self.width)], 1), bias)

    def logits(self, h: Any, ids: Tensor | None) -> Tensor:
        """(rows, candidates) of token sequences."""
        texts: Sequences = h
        asked = torch.arange(self.n, device=texts.states.device) if ids is None else ids.reshape(-1)
        rows = self.rows.take(asked)
        labels = self._split(rows if ids is None else rows.view(*ids.shape, -1))
        return label_attention.logits(texts, labels, self.shared.layers())

    def _split(self, rows: Tensor) -> LabelVectors:
        own = rows[..., self.width : 2 * self.width] if self.plan.own else None
        return LabelVectors(rows[..., : self.width], own, rows[..., -1] if self.rows.has_bias else None)

    def whole(self) -> tuple[Tensor, Tensor]:
        vectors, bias = self.rows.whole()
        return vectors[:, : self.width], bias

    def rank(self, unseen: NDArray[np.bool_] | None) -> Attention:
        vectors, bias = self.rows.whole()
        offset = to_float32(bias).copy()
        if unseen is not None:
            offset[unseen] = -np.inf
        own = to_float32(vectors[:, self.width :]) if self.plan.own else None
        layers = [(to_float32(weight), to_float32(b)) for weight, b in self.shared.layers()]
        return Attention(to_float32(vectors[:, : self.width]), own, offset, layers)
