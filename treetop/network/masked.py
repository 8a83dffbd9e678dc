"""Masked language modelling: an encoder learns to guess tokens that are hidden from it (Devlin et al. 2019).

Of the tokens of a mini-batch a fixed share is chosen; 80 % of these become the mask token, 10 % another one, 10 % stay.
The head is BERT's: a layer, GELU, a norm, and the token embeddings themselves as output vectors, with a bias. A third
task beside `network.py` and `pool.py`, as it has no labels.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from treetop.core.dataset import Ints
from treetop.network.inputs import Encoded
from treetop.tensors.handover import send
from treetop.tensors.packed import Shape
from treetop.train.batches import Batch, Loaded, Rows
from treetop.train.optim import AdamConfig
from treetop.train.task import Table, Validation

HIDDEN, REPLACED = 0.8, 0.9  # of the chosen tokens: below, hidden; up to here, another token; then left as they are


class WordHead(nn.Module):
    """(tokens, width) hidden states -> (tokens, vocabulary) logits, by the token embeddings."""

    def __init__(self, width: int, vocabulary: int) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        nn.init.eye_(self.layer.weight)
        nn.init.zeros_(self.layer.bias)

    def forward(self, states: Tensor, words: Tensor) -> Tensor:
        hidden = self.norm(F.gelu(self.layer(states.float())))
        return F.linear(hidden.to(words.dtype), words).float() + self.bias


class MaskedWords:
    """The task the loop trains: row i of `inputs` is text i, one sequence each."""

    def __init__(
        self, inputs: Encoded, *, share: float, mask: int, special: Ints, encoder: AdamConfig, head: AdamConfig
    ) -> None:
        self.inputs, self.device, self.share, self.mask = inputs, inputs.device, share, mask
        self.encoder = inputs.encoder
        self.special = send(special, self.device)
        self.head = WordHead(self.encoder.width, self.encoder.vocabulary).to(self.device)
        self.modules: Mapping[str, tuple[nn.Module, AdamConfig]] = {
            "encoder": (self.encoder, encoder), "words": (self.head, head),
        }  # fmt: skip
        self.tables: Mapping[str, Table] = {}
        self.low: Collection[str] = ("encoder",)
        self.mean = float(inputs.lengths.mean())

    def state(self) -> Mapping[str, Tensor]:
        return {}

    def load(self, batch: Batch, static: bool) -> Loaded:
        """Never to be recorded: how many tokens are hidden varies."""
        return Loaded(batch, {"inputs": self.inputs.load(batch.rows)})

    def loss(self, loaded: Loaded) -> Tensor:
        """The sum over the chosen tokens, divided by how many are chosen of so many texts on average."""
        message = loaded.parts["inputs"]
        packed = self.inputs.store.packed(message["places"], cast(Shape, message.facts))
        place, shown, real = self.chosen(packed.ids)
        hidden = replace(packed, ids=packed.ids.index_copy(0, place, shown))
        states = self.encoder.module_states(hidden, [self.encoder.depth])[self.encoder.depth]
        logits = self.head(states[place], self.encoder.body.get_input_embeddings().weight)
        values = F.cross_entropy(logits, packed.ids[place], reduction="none")
        return torch.where(real, values, 0.0).sum() / (self.share * self.mean * loaded.batch.total)

    def chosen(self, ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(places to guess, the tokens shown there, whether a place counts: special tokens are never guessed).

        As many places in any draw, so that a GPU need not be waited for.
        """
        noise = torch.rand(len(ids), device=ids.device).masked_fill(torch.isin(ids, self.special), 2.0)
        values, place = torch.topk(noise, max(1, round(self.share * len(ids))), largest=False)
        real = values < 1.0
        turn = torch.rand(len(place), device=ids.device)
        others = torch.randint(self.encoder.vocabulary, (len(place),), device=ids.device)
        shown = torch.where(turn < HIDDEN, self.mask, torch.where(turn < REPLACED, others, ids[place]))
        return place, torch.where(real, shown, ids[place]), real

    def tokens(self, rows: Rows) -> int:
        return self.inputs.tokens(rows)

    def validate(self) -> Validation | None:
        """Nothing is watched."""
        return None
