"""XML-CNN's network: convolutions over windows of words, max-pooled in a few parts of the text, then a hidden layer.

Every window of 2, 4 or 8 words is compared with a few hundred filters; the text is cut into equal parts, and each part
keeps the strongest response to each filter (dynamic max pooling), so that a view knows roughly where something was
said. Without windows the view is made from the mean of the word vectors instead: the baseline to beat.

Deviation: a text is cut by its own length, not by that of the padded batch, so that padding changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from treetop.core.config import setting
from treetop.core.errors import ConfigError
from treetop.features.words.layers import Task, WordNet
from treetop.tensors.packed import Packed

VIEW = Task("document")
WIDEST = 64  # words of a window


@dataclass(frozen=True, kw_only=True)
class CnnConfig:
    """Shape of the network."""

    windows: tuple[int, ...] = setting(
        (2, 4, 8), "window sizes of the convolutions in words; empty: none, the mean of the word vectors instead"
    )
    filters: int = setting(128, "filters per window size", low=1, high=4096)
    parts: int = setting(2, "parts of a text that are max-pooled separately", low=1, high=64)
    hidden: int = setting(512, "dimension of the hidden layer, which is the view; 0: none", low=0, high=1 << 16)
    dropout: float = setting(0.25, "dropout on the word vectors", low=0.0, high=0.99)

    def __post_init__(self) -> None:
        if wrong := [size for size in self.windows if not 1 <= size <= WIDEST]:
            raise ConfigError(f"windows: {wrong[0]} is out of range. Allowed: 1 to {WIDEST} words.")

    def width(self, words: int) -> int:
        """Dimension of a view over word vectors of dimension `words`."""
        return self.hidden or (len(self.windows) * self.filters * self.parts if self.windows else words)


class Cnn(WordNet):
    """View `document` of texts: (rows, hidden)."""

    def __init__(self, config: CnnConfig, n_words: int, width: int, length: int) -> None:
        super().__init__(n_words, width)
        self.config, self.length, self.width = config, length, config.width(width)
        self.convolutions: Any = nn.ModuleList(nn.Conv1d(width, config.filters, size) for size in config.windows)
        pooled = len(config.windows) * config.filters * config.parts if config.windows else width
        self.hidden = nn.Linear(pooled, config.hidden) if config.hidden else None
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Conv1d):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def view_width(self, task: Task) -> int:
        return self.width

    def forward(self, packed: Packed, poolings: Sequence[Task], detached: Collection[str] = ()) -> dict[str, Tensor]:
        x, lengths = self.rectangle(packed, self.length), self.lengths(packed, self.length)
        if self.training and self.config.dropout:
            x = F.dropout(x, self.config.dropout)
        pooled = self._pooled(x, lengths) if self.config.windows else _mean(x, lengths)
        h = pooled if self.hidden is None else F.relu(self.hidden(pooled))
        return {task.name: h for task in poolings}

    def _pooled(self, x: Tensor, lengths: Tensor) -> Tensor:
        """(rows, windows x filters x parts): the strongest response in each part; 0 where a part has no word."""
        place, turned = torch.arange(x.shape[1], device=x.device), x.mT
        part = place * self.config.parts // lengths.clamp_min(1)[:, None]
        part = torch.where(place < lengths[:, None], part, -1)
        found = []
        for convolution in self.convolutions:
            responses = F.relu(convolution(F.pad(turned, (0, convolution.kernel_size[0] - 1))))
            for p in range(self.config.parts):
                found.append(responses.masked_fill((part != p)[:, None], 0.0).amax(2))
        return torch.cat(found, 1)


def _mean(x: Tensor, lengths: Tensor) -> Tensor:
    """(rows, width) means of the word vectors, whose padding is zero."""
    return x.sum(1) / lengths.clamp_min(1)[:, None].to(x.dtype)
