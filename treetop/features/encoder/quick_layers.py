"""BERT's layers on a CPU without torch modules, for prediction: one product computes query, key and value.

A small encoder spends half of its time per text in module calls. Encoders with BERT's architecture (BERT, RoBERTa,
MiniLM, E5, BGE, GTE) do not need modules: the weights are laid out once for the CPU's matrix kernels, and a layer is
five calls. A probe checks whether an encoder has this architecture; others keep their modules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from treetop.features.encoder import packed_linear
from treetop.kernels.gpu.packed_attention import attend_plain
from treetop.tensors.packed import Packed, TokenRows

# The matrix library compiles half a megabyte of code for every row count it sees: keep these few.
SHORT, MANY, LONG = 8, 128, 128  # rows are a multiple of SHORT up to MANY, of LONG beyond


class Norm(NamedTuple):
    """Layer norm over the last dimension."""

    weight: Tensor
    bias: Tensor
    eps: float

    @classmethod
    def of(cls, module: Any) -> Norm:
        return cls(module.weight.detach(), module.bias.detach(), module.eps)

    def __call__(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], self.weight, self.bias, self.eps)


class Affine(NamedTuple):
    """A linear layer laid out for the CPU, optionally followed by GELU."""

    weight: Tensor
    bias: Tensor
    gelu: bool = False

    @classmethod
    def of(cls, *modules: Any, gelu: bool = False) -> Affine:
        """Several layers over the same input as one."""
        weight = torch.cat([module.weight.detach() for module in modules])
        bias = torch.cat([module.bias.detach() for module in modules])
        return cls(torch.ops.mkldnn._reorder_linear_weight(weight, None), bias, gelu)

    def __call__(self, x: Tensor) -> Tensor:
        activation: tuple[Any, ...] = ("gelu", [], "none") if self.gelu else ("none", [], "")
        return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, *activation)


class Layer(NamedTuple):
    """Attention, then the feed-forward layer, each with a residual connection."""

    qkv: Affine  # query, key and value
    out: Affine
    norm: Norm
    widen: Affine
    narrow: Affine
    last_norm: Norm

    @classmethod
    def of(cls, module: Any) -> Layer:
        attention, out = module.attention.self, module.attention.output
        return cls(
            Affine.of(attention.query, attention.key, attention.value), Affine.of(out.dense), Norm.of(out.LayerNorm),
            Affine.of(module.intermediate.dense, gelu=True), Affine.of(module.output.dense),
            Norm.of(module.output.LayerNorm),
        )  # fmt: skip

    def __call__(self, x: Tensor, starts: Tensor, heads: int) -> Tensor:
        query, key, value = self.qkv(x).view(len(x), 3, heads, -1).unbind(1)
        attended = attend_plain(query, key, value, starts, scale=query.shape[-1] ** -0.5)
        x = self.norm(self.out(attended.reshape(x.shape)) + x)
        return self.last_norm(self.narrow(self.widen(x)) + x)


class QuickLayers:
    """The states of an encoder's layers, as `Encoder` returns them; laid out again when its weights change."""

    def __init__(self, body: nn.Module, offset: int) -> None:
        self.body, self.offset = body, offset
        self._weights = list(body.parameters())
        self._lay_out()

    @classmethod
    def of(cls, encoder: Any) -> QuickLayers | None:
        """None if the encoder does not have BERT's architecture or this torch lacks the CPU's matrix kernels."""
        if not (
            encoder.packs and packed_linear.available() and getattr(encoder.body.config, "hidden_act", "") == "gelu"
        ):
            return None
        tokens = np.arange(12) % encoder.vocabulary
        packed = TokenRows(tokens, np.array([0, 3, 12]), torch.device("cpu")).gather(np.arange(2))
        try:
            with torch.inference_mode():
                quick = cls(encoder.body, encoder.offset)
                layers = range(encoder.depth + 1)
                states, expected = quick.states(packed, layers), encoder.module_states(packed, layers)
                return quick if all(torch.allclose(states[i], expected[i], atol=1e-4) for i in layers) else None
        except (AttributeError, RuntimeError, NotImplementedError, TypeError, IndexError):
            return None

    def states(self, packed: Packed, wanted: Sequence[int]) -> dict[int, Tensor]:
        """Layer -> (tokens, width)."""
        if self._key != self._versions():
            self._lay_out()
        words, types, positions, norm = self._embedding
        n = len(packed.ids)
        padding = -n % (SHORT if n <= MANY else LONG)
        ids, positions_ = (F.pad(numbers, (0, padding)) for numbers in (packed.ids, packed.positions))
        starts = torch.cat([packed.starts, packed.starts[-1:] + padding])  # the padding is a separate sequence
        x = norm(F.embedding(ids, words) + types[0] + F.embedding(positions_ + self.offset, positions))
        states_out = {}
        for index in range(max(wanted) + 1):
            x = self._layers[index - 1](x, starts, self._heads) if index else x
            if index in wanted:
                states_out[index] = x[:n]
        return states_out

    def _lay_out(self) -> None:
        body: Any = self.body
        table = body.embeddings
        names = ("word_embeddings", "token_type_embeddings", "position_embeddings")
        self._embedding = (*(getattr(table, name).weight.detach() for name in names), Norm.of(table.LayerNorm))
        self._layers = [Layer.of(layer) for layer in body.encoder.layer]
        self._heads = int(body.config.num_attention_heads)
        self._key = self._versions()

    def _versions(self) -> list[tuple[int, int]]:
        return [(weight.data_ptr(), weight._version) for weight in self._weights]
