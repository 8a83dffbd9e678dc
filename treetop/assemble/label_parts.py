"""What label vectors are made of: the label's text, the texts of labels it goes with, a free vector; and how these mix.

Texts of labels are read by the words that documents are read with, and a residual block of spectral norm 1 makes a part
of each sum. Parts join number by number (`Gates`: DECAF, ECLARE), or each label weighs its own (`Attention`:
InceptionXML-LF). Once trained a label's parts are one vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from treetop.core.dataset import Csr
from treetop.features.bag import Kind, Residual
from treetop.features.tokens import Tokens
from treetop.features.word_layers import Spectral, sums_of
from treetop.train.batches import Packed, Rows, TokenRows, send

Mix = Literal["gates", "attention"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Makeup:
    """What the vectors of one level are made of, and the view they meet."""

    view: str
    text: bool = True  # a part from the text; without it the free vector is all
    graph: Csr | None = None  # (n, n) a part from the texts of those a label or cluster goes with
    free: bool = True  # a free vector
    begin: Literal["random", "text", "graph"] = "random"  # where free vectors begin: anywhere, or at that part
    mix: Mix = "gates"
    block: Kind = "relu"
    dropout: float = 0.0  # inside blocks and attention
    view_dropout: float = 0.0

    @property
    def texts(self) -> int:
        """Parts made from texts."""
        return int(self.text) * (1 + (self.graph is not None))


class Gates(nn.Module):
    """sum of sigma(a_k) * part_k, number by number; a half of each at first."""

    def __init__(self, width: int, parts: int) -> None:
        super().__init__()
        self.gates = nn.ParameterList([nn.Parameter(torch.zeros(width)) for _ in range(parts)])

    def forward(self, parts: Sequence[Tensor]) -> Tensor:
        made = [part * gate.sigmoid() for part, gate in zip(parts, self.gates, strict=True)]
        return torch.stack(made).sum(0)


class Attention(nn.Module):
    """Each label weighs its parts: softmax(A [B ReLU(part), ...]), A and B of spectral norm 1; the parts are added."""

    def __init__(self, width: int, parts: int, dropout: float) -> None:
        super().__init__()
        self.look, self.weigh = Spectral(width, width, bias=True), Spectral(parts, parts * width, bias=True)
        self.dropout = nn.Dropout(dropout)

    def shares(self, parts: Sequence[Tensor]) -> Tensor:
        """(labels, parts) how much each part counts; they add up to 1."""
        look = self.look.normal()
        seen = [F.linear(F.relu(self.dropout(part)), look, self.look.bias) for part in parts]
        return torch.softmax(F.linear(torch.cat(seen, 1), self.weigh.normal(), self.weigh.bias), 1)

    def forward(self, parts: Sequence[Tensor]) -> Tensor:
        shares = self.shares(parts)
        made = parts[0] * shares[:, :1]
        for k, part in enumerate(parts[1:], 1):
            made = torch.addcmul(made, part, shares[:, k : k + 1])
        return made


class Side(nn.Module):
    """What one level learns beside words and free label vectors."""

    def __init__(self, width: int, plan: Makeup, nodes: int = 0) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Residual(width, plan.dropout, plan.block) for _ in range(plan.texts)])
        parts = plan.texts + plan.free
        self.mix: nn.Module | None = None
        if plan.text and plan.mix == "gates":
            self.mix = Gates(width, parts)
        elif plan.text and parts > 1:
            self.mix = Attention(width, parts, plan.dropout)
        self.view_dropout = nn.Dropout(plan.view_dropout)
        self.nodes = nn.Linear(width, nodes) if nodes else None

    def vectors(self, sums: Sequence[Tensor], free: Tensor | None) -> Tensor:
        """(labels, width) vectors of labels with these sums of words and free vectors."""
        parts = self.parts(sums)
        parts = parts if free is None else [*parts, free]
        made: Tensor = parts[0] if self.mix is None else self.mix(parts)
        return made

    def parts(self, sums: Sequence[Tensor]) -> list[Tensor]:
        """What the blocks make of sums of words."""
        return [block(z) for block, z in zip(self.blocks, sums, strict=True)]


class LabelTexts:
    """The words of labels or clusters on the device, and who goes with whom."""

    def __init__(self, tokens: Tokens, rarity: Tensor, graph: Csr | None) -> None:
        self.rows = TokenRows(tokens.ids, tokens.offsets, rarity.device)
        self.rarity, self.graph, self.n = rarity, graph, len(tokens)

    def sums(self, words: Tensor, labels: Rows | None = None) -> list[Tensor]:
        """(labels, width) sums of the word vectors of each text, and where there is a graph G those added up by it.

        Without `labels` those of all, for which nothing is prepared on the host from the second time on.
        """
        if labels is None:
            return self._every(words)
        if self.graph is None:
            return [_read(words, self.rarity, self.rows.gather(labels))]
        around: Csr = self.graph[labels]
        met = np.zeros(self.n, bool)
        met[labels], met[around.indices] = True, True
        place = np.cumsum(met) - 1
        Z = _read(words, self.rarity, self.rows.gather(np.flatnonzero(met)))
        at, ids, ends, weights = (
            send(part, Z.device)
            for part in (place[labels], place[around.indices], around.indptr[:-1].astype(np.int64), around.data)
        )
        total = F.embedding_bag(ids, Z, ends, mode="sum", per_sample_weights=weights)  # no product is kept
        return [Z.index_select(0, at), total]

    def _every(self, words: Tensor) -> list[Tensor]:
        Z = _read(words, self.rarity, self._all)
        if self.graph is None:
            return [Z]
        ids, ends, weights = self._around
        return [Z, F.embedding_bag(ids, Z, ends, mode="sum", per_sample_weights=weights)]

    @cached_property
    def _all(self) -> Packed:
        return self.rows.gather(np.arange(self.n))

    @cached_property
    def _around(self) -> list[Tensor]:
        """The whole graph on the device."""
        G = self.graph
        parts = () if G is None else (G.indices.astype(np.int64), G.indptr[:-1].astype(np.int64), G.data)
        return [send(part, self.rarity.device) for part in parts]


def _read(words: Tensor, rarity: Tensor, packed: Packed) -> Tensor:
    return sums_of(words, rarity, packed).index_select(0, packed.back)


def joined_tokens(tokens: Tokens, parent: NDArray[np.integer], n: int) -> Tokens:
    """Per cluster the words of all its labels, one after the other."""
    order = np.argsort(parent, kind="stable")
    starts, counts = tokens.offsets[order], tokens.lengths[order]
    ends = np.cumsum(counts)
    place = np.arange(int(counts.sum())) + np.repeat(starts - (ends - counts), counts)
    sums = np.bincount(parent, weights=tokens.lengths, minlength=n).astype(np.int64)
    return Tokens(tokens.ids[place], np.concatenate([np.zeros(1, np.int64), np.cumsum(sums)]))
