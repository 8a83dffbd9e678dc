"""AttentionXML's network: a bidirectional LSTM over word vectors, whose view is the sequence of its states.

The backward direction is a second LSTM over the reversed words of each text, so padding behind a text reaches neither.
Both begin in states that are learned.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from treetop.core.config import setting
from treetop.features.words.layers import Task, WordNet
from treetop.tensors.packed import Packed
from treetop.tensors.sequences import Sequences

STATES = Task("states")


@dataclass(frozen=True, kw_only=True)
class LstmConfig:
    """Shape of the network."""

    hidden: int = setting(256, "hidden dimension of each direction", low=1, high=1 << 14)
    dropout: float = setting(0.2, "dropout on the word vectors", low=0.0, high=0.99)


class Lstm(WordNet):
    """View `states` of texts: a sequence of (2 x hidden) numbers a word."""

    packs = False  # batches of equal length cost least

    def __init__(self, config: LstmConfig, n_words: int, width: int, length: int) -> None:
        super().__init__(n_words, width)
        self.config, self.length, self.width = config, length, 2 * config.hidden
        self.directions: Any = nn.ModuleList(nn.LSTM(width, config.hidden, batch_first=True) for _ in range(2))
        self.start = nn.Parameter(torch.zeros(2, 2, config.hidden))  # per direction: output and cell

    def view_width(self, task: Task) -> int:
        return self.width

    def train(self, mode: bool = True) -> Lstm:
        super().train(mode)
        for direction in self.directions:
            if direction.weight_ih_l0.dtype != torch.float32:  # the optimiser made them, one by one
                _put_together(direction)
        return self

    def forward(self, packed: Packed, poolings: Sequence[Task], detached: Collection[str] = ()) -> dict[str, Any]:
        x, lengths = self.rectangle(packed, self.length), self.lengths(packed, self.length)
        if self.training and self.config.dropout:
            x = F.dropout(x, self.config.dropout)
        place = torch.arange(x.shape[1], device=x.device)
        there = place < lengths[:, None]
        turned = torch.where(there, lengths[:, None] - 1 - place, place)  # its own inverse
        forward, backward = (self._run(d, part) for d, part in enumerate((x, _rows_at(x, turned))))
        states = torch.cat([forward, _rows_at(backward, turned)], 2)
        found = Sequences(torch.where(there[..., None], states, 0.0), there)
        return {task.name: found for task in poolings}

    def _run(self, direction: int, x: Tensor) -> Tensor:
        if not self.training:  # weights of a loaded model lie apart
            _put_together(self.directions[direction])
        first = self.start[direction][:, None, None].expand(2, 1, len(x), -1).contiguous()
        states: Tensor = self.directions[direction](x, (first[0], first[1]))[0]
        return states


@torch.no_grad()
def _put_together(lstm: Any) -> None:
    """Put the weights into one piece of memory, as cuDNN wants them; torch's own method does not do so for bfloat16."""
    from torch.backends.cudnn import rnn

    weights = lstm._flat_weights
    if weights[0].is_cuda and len({weight.untyped_storage().data_ptr() for weight in weights}) > 1:
        shape = (lstm.input_size, rnn.get_cudnn_mode("LSTM"), lstm.hidden_size, 0, 1)
        torch._cudnn_rnn_flatten_weight(weights, len(weights), *shape, lstm.batch_first, False)


def _rows_at(x: Tensor, place: Tensor) -> Tensor:
    """The tokens of each row in another order."""
    return x.gather(1, place[..., None].expand_as(x))
