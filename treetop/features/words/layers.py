"""Building blocks of networks over word vectors: embedding table, batch norm, weights of spectral norm 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from treetop.tensors.packed import Packed

MOMENTUM, EPS = 0.1, 1e-5


@dataclass(frozen=True)
class Task:
    """A view named after what it is for, such as `meta`."""

    name: str


class WordNet(nn.Module):
    """A network over packed word ids, in place of a transformer; the last row of the table is padding, all zeros."""

    packs = True  # nothing is padded to the longest of a batch at a cost
    shapes = None  # no GPU programs to compile ahead
    _laid: Any = None  # weights laid out for prediction, where a network keeps such

    def __init__(self, n_words: int, width: int) -> None:
        super().__init__()
        self.words = nn.Parameter(torch.zeros(n_words + 1, width))

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        self._laid = None  # of another device or number type
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]

    @property
    def vocabulary(self) -> int:
        """Words without the padding."""
        return len(self.words) - 1

    @property
    def settings(self) -> dict[str, Any]:
        """Sizes that determine memory, named as in transformers."""
        width = self.words.shape[1]
        sizes = {"hidden_size": width, "intermediate_size": width, "vocab_size": len(self.words)}
        return {**sizes, "num_hidden_layers": 1, "max_position_embeddings": 0}

    @torch.no_grad()
    def init_words(self, vectors: Tensor) -> None:
        """Set the initial word vectors."""
        self.words[:-1] = vectors

    def rectangle(self, packed: Packed, length: int) -> Tensor:
        """(rows, at most `length`, width) vectors of the first words of each text, padded with zeros."""
        n, pad = max(1, min(length, packed.shape.longest)), self.vocabulary
        if packed.shape.tokens == 0:
            return self.words.new_zeros(packed.shape.rows, n, self.words.shape[1])
        if packed.shape.sequences == 1:
            return (F.embedding(packed.ids[:n], self.words) if packed.vectors is None else packed.vectors[:n])[None]
        starts = packed.starts.long()
        first = starts[:-1].index_select(0, packed.back)[:, None]
        end = starts[1:].index_select(0, packed.back)[:, None]
        place = first + torch.arange(n, device=starts.device)
        if packed.vectors is not None:
            found = packed.vectors[place.clamp_max(packed.shape.tokens - 1)]
            return torch.where((place < end)[..., None], found, 0.0)
        ids = packed.ids[place.clamp_max(packed.shape.tokens - 1)]
        return F.embedding(torch.where(place < end, ids, pad), self.words, padding_idx=pad)

    def lengths(self, packed: Packed, length: int) -> Tensor:
        """(rows,) words of each text, at most `length`."""
        starts = packed.starts.long()
        return (starts[1:] - starts[:-1]).index_select(0, packed.back).clamp_max(length)

    def embedded(self, ids: Tensor) -> Tensor:
        """(tokens, width) the word vectors of tokens."""
        return F.embedding(ids, self.words)

    def blank(self, token: int | None) -> Tensor:
        """(width,) a word vector that says nothing: the padding."""
        return torch.zeros_like(self.words[0])

    def view_width(self, task: Task) -> int:
        """Dimension of a view."""
        raise NotImplementedError

    # What training and prediction ask of an encoder: nothing to do here.

    def fuse_layers(self) -> None:
        """Its layers are few and large already."""

    def compile_layers(self) -> None:
        """As `fuse_layers`."""

    def lay_out(self) -> None:
        """Nothing to lay out."""


class BatchNorm(nn.Module):
    """Batch norm over the last dimension, always in float32; a single value does not update the statistics."""

    centre: Tensor
    spread: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.register_buffer("centre", torch.zeros(width))
        self.register_buffer("spread", torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or x.numel() == x.shape[-1]:
            return self.fixed()(x)
        flat, centre, spread = x.reshape(-1, x.shape[-1]).float(), self.centre.float(), self.spread.float()
        normed = F.batch_norm(flat, centre, spread, self.weight.float(), self.bias.float(), True, MOMENTUM, EPS)
        return normed.view(x.shape).to(x.dtype)

    def fixed(self) -> Callable[[Tensor], Tensor]:
        """The layer in evaluation mode as one function."""
        scale = self.weight.float() * torch.rsqrt(self.spread.float() + EPS)
        shift = self.bias.float() - self.centre.float() * scale
        return lambda x: torch.addcmul(shift, x.float(), scale).to(x.dtype)


class Spectral(nn.Module):
    """A matrix divided by its largest singular value, tracked by one power iteration per step."""

    u: Tensor

    def __init__(self, out: int, into: int, *, bias: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_normal_(torch.empty(out, into)))
        self.bias = nn.Parameter(torch.zeros(out)) if bias else None
        self.register_buffer("u", F.normalize(torch.randn(out), dim=0))

    def normal(self) -> Tensor:
        """(out, into) the weight at spectral norm 1."""
        W = self.weight.float()
        with torch.no_grad():
            v = F.normalize(W.T @ self.u.float(), dim=0)
            u = F.normalize(W @ v, dim=0)
            if self.training:
                self.u.copy_(u)
        return (W / torch.dot(u, W @ v).clamp_min(1e-12)).to(self.weight.dtype)


def sums_of(words: Tensor, rarity: Tensor, packed: Packed) -> Tensor:
    """(sequences, width) float32 sums of word vectors, weighted by `rarity`, L2-normalised in each text (tf-idf)."""
    n, device = packed.shape.sequences, packed.ids.device
    share = rarity.float().index_select(0, packed.ids)
    squares = torch.zeros(n, device=device).index_add_(0, packed.sequence, share.square())
    weight = share * squares.clamp_min(1e-12).rsqrt().index_select(0, packed.sequence)
    plain = packed.vectors is None and words.dtype == torch.float32 and device.type == "cpu"
    if plain and packed.shape.tokens:  # a vector for each word is dear
        starts = packed.starts.long()
        return F.embedding_bag(
            packed.ids, words, starts, mode="sum", per_sample_weights=weight, include_last_offset=True
        )
    found = F.embedding(packed.ids, words) if packed.vectors is None else packed.vectors
    vectors = found.float() * weight[:, None]
    return torch.zeros(n, words.shape[1], device=device).index_add(0, packed.sequence, vectors)
