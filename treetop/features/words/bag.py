"""Astec's network: the tf-idf-weighted sum of word vectors, then one residual layer.

`coarse` is ReLU(sum of weighted word vectors), `fine` adds ReLU(R coarse), where R has spectral norm 1 and begins as
the identity; `near` is coarse at length 1, for finding near labels. Deviation: a word that occurs twice counts as two
words where the row is scaled to length 1.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from treetop.core.config import setting
from treetop.features.encoder.tokens import Tokens
from treetop.features.words.layers import Spectral, Task, WordNet, sums_of
from treetop.tensors.packed import Packed

DOCUMENT = Task("document")  # DECAF's only view
COARSE, FINE, NEAR = VIEWS = (Task("coarse"), Task("fine"), Task("near"))
Kind = Literal["relu", "gelu"]


@dataclass(frozen=True, kw_only=True)
class BagConfig:
    """Shape of the network."""

    dropout: float = setting(0.5, "dropout on the text embedding", low=0.0, high=0.99)


class Bag(WordNet):
    """Views `coarse`, `fine` and `near`, as wide as the word vectors."""

    rarity: Tensor

    def __init__(self, config: BagConfig, n_words: int, width: int, length: int) -> None:
        super().__init__(n_words, width)
        self.config, self.length, self.width = config, length, width
        self.register_buffer("rarity", torch.ones(n_words))
        self.residual: Any = Spectral(width, width, bias=True)
        nn.init.eye_(self.residual.weight)
        self._laid: Tensor | None = None

    def view_width(self, task: Task) -> int:
        """Dimension of a view."""
        return self.width

    @torch.no_grad()
    def weigh(self, rarity: NDArray[np.float32]) -> None:
        """Set the weight of each word."""
        self.rarity.copy_(torch.from_numpy(rarity))

    def train(self, mode: bool = True) -> Bag:
        self._laid = None
        super().train(mode)
        return self

    @torch.no_grad()
    def lay_out(self) -> None:
        self._laid = self.residual.normal()

    def forward(self, packed: Packed, poolings: Sequence[Task], detached: Collection[str] = ()) -> dict[str, Tensor]:
        h = self._drop(F.relu(self.sums(packed))).index_select(0, packed.back)
        views = {COARSE.name: h, NEAR.name: F.normalize(h, dim=1)}
        if FINE in poolings:
            quick = self._laid is not None and torch.is_inference_mode_enabled()
            weight = self._laid if quick and self._laid is not None else self.residual.normal()
            base = h.detach() if FINE.name in detached else h
            offset = None if self.residual.bias is None else self.residual.bias.float()
            views[FINE.name] = base + self._drop(F.relu(F.linear(base, weight.float(), offset)))
        return {task.name: views[task.name] for task in poolings}

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.config.dropout) if self.training and self.config.dropout else x

    def sums(self, packed: Packed) -> Tensor:
        """(sequences, width) float32 sums with L2-normalised tf-idf weights."""
        return sums_of(self.words, self.rarity, packed)


class Residual(nn.Module):
    """DECAF's block: v + k R(ReLU(v)), R of spectral norm 1 and the identity at first, k learned.

    InceptionXML-LF's (`gelu`) has GELU in the place of ReLU and learns how much v itself counts, too.
    """

    def __init__(self, width: int, dropout: float, kind: Kind = "relu") -> None:
        super().__init__()
        self.kind = kind
        self.inner, self.scale = Spectral(width, width, bias=True), nn.Parameter(torch.ones(1))
        self.carry = nn.Parameter(torch.ones(1)) if kind == "gelu" else None
        self.dropout = nn.Dropout(dropout)
        nn.init.eye_(self.inner.weight)

    def forward(self, v: Tensor) -> Tensor:
        offset = None if self.inner.bias is None else self.inner.bias.float()
        bent = F.gelu(v) if self.kind == "gelu" else F.relu(v)
        kept = v if self.carry is None else self.carry.float() * v
        return kept + self.scale.float() * F.linear(self.dropout(bent), self.inner.normal().float(), offset)


class DecafBag(Bag):
    """View `document`: ReLU of DECAF's block over the sum of weighted word vectors."""

    def __init__(self, config: BagConfig, n_words: int, width: int, length: int) -> None:
        super().__init__(config, n_words, width, length)
        self.residual = nn.Identity()
        self.block = Residual(width, config.dropout)

    @torch.no_grad()
    def lay_out(self) -> None:
        """Nothing: the block is one small product."""

    def forward(self, packed: Packed, poolings: Sequence[Task], detached: Collection[str] = ()) -> dict[str, Tensor]:
        h = self._drop(F.relu(self.block(self.sums(packed))))
        return {task.name: h.index_select(0, packed.back) for task in poolings}


def rarity(tokens: Tokens, n_words: int) -> NDArray[np.float32]:
    """(n_words,) log((1 + texts) / (1 + texts with the word)) + 1, as tf-idf weighs words."""
    rows = np.repeat(np.arange(len(tokens), dtype=np.int64), tokens.lengths)
    pairs = np.unique(rows * n_words + tokens.ids.astype(np.int64))
    counts = np.bincount(pairs % n_words, minlength=n_words)
    return (np.log((1.0 + len(tokens)) / (1.0 + counts)) + 1.0).astype(np.float32)
