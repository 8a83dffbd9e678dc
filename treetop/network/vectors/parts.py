"""Label vectors composed of parts: the label's text, the texts of co-occurring labels, a free vector.

Label texts share the word vectors of the documents; a residual block of spectral norm 1 turns each sum of word vectors
into a part. Parts are combined elementwise (`Gates`: DECAF, ECLARE), or with weights per label (`Attention`:
InceptionXML-LF). A cluster's text is the concatenation of its labels' texts. After training, a label's parts are stored
as one vector, so prediction never reads label texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from treetop.core.dataset import Csr
from treetop.features.encoder.tokens import Tokens
from treetop.features.words.bag import Kind, Residual
from treetop.features.words.layers import Spectral, sums_of
from treetop.network.vectors.contract import GivesLogits, GivesRows
from treetop.network.vectors.rows import RowTable
from treetop.tensors.handover import send, to_float32
from treetop.tensors.packed import Packed, TokenRows
from treetop.train.batches import Rows
from treetop.train.optim import AdamConfig
from treetop.train.task import Table

Join = Literal["gates", "attention"]
Blocks = Mapping[str, NDArray[np.float32]]
BLOCK = 4_096  # labels whose texts are read at a time
EVERY = 1 << 17  # labels up to which a GPU computes all vectors: a batch's candidates are most of them


@dataclass(frozen=True, kw_only=True, eq=False)
class PartsPlan:
    """How the vectors of one head are composed."""

    text: bool = True  # a part from the text; without it there is only the free vector
    graph: Csr | None = None  # (n, n) a part from the texts of co-occurring labels or clusters
    free: bool = True  # a free vector
    init: Literal["random", "text", "graph"] = "random"  # initialisation of free vectors: random, or that part
    join: Join = "gates"
    block: Kind = "relu"
    dropout: float = 0.0  # inside blocks and attention

    @property
    def texts(self) -> int:
        """Parts made from texts."""
        return int(self.text) * (1 + (self.graph is not None))

    @property
    def count(self) -> int:
        return self.texts + self.free


class Gates(nn.Module):
    """Sum of σ(a_k) * part_k, elementwise; all gates start at one half."""

    def __init__(self, width: int, parts: int) -> None:
        super().__init__()
        self.gates = nn.ParameterList([nn.Parameter(torch.zeros(width)) for _ in range(parts)])

    def forward(self, parts: Sequence[Tensor]) -> Tensor:
        gated = [part * gate.sigmoid() for part, gate in zip(parts, self.gates, strict=True)]
        return torch.stack(gated).sum(0)


class Attention(nn.Module):
    """Each label weighs its parts: softmax(A [B ReLU(part), ...]), A and B of spectral norm 1; the parts are added."""

    def __init__(self, width: int, parts: int, dropout: float) -> None:
        super().__init__()
        self.look, self.weigh = Spectral(width, width, bias=True), Spectral(parts, parts * width, bias=True)
        self.dropout = nn.Dropout(dropout)

    def shares(self, parts: Sequence[Tensor]) -> Tensor:
        """(labels, parts) weight of each part; they sum to 1."""
        look = self.look.normal()
        seen = [F.linear(F.relu(self.dropout(part)), look, self.look.bias) for part in parts]
        return torch.softmax(F.linear(torch.cat(seen, 1), self.weigh.normal(), self.weigh.bias), 1)

    def forward(self, parts: Sequence[Tensor]) -> Tensor:
        shares = self.shares(parts)
        combined = parts[0] * shares[:, :1]
        for k, part in enumerate(parts[1:], 1):
            combined = torch.addcmul(combined, part, shares[:, k : k + 1])
        return combined


class Composer(nn.Module):
    """The learned composition of a label's parts; `nodes` holds the free vectors of a first level."""

    def __init__(self, plan: PartsPlan, width: int, nodes: int = 0) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Residual(width, plan.dropout, plan.block) for _ in range(plan.texts)])
        self.join: nn.Module | None = None
        if plan.text and plan.join == "gates":
            self.join = Gates(width, plan.count)
        elif plan.text and plan.count > 1:
            self.join = Attention(width, plan.count, plan.dropout)
        self.nodes = nn.Linear(width, nodes) if nodes else None

    def forward(self, sums: Sequence[Tensor], free: Tensor | None) -> Tensor:
        """(labels, width) vectors of labels with these sums of words and free vectors."""
        parts = self.parts(sums)
        parts = parts if free is None else [*parts, free]
        return parts[0] if self.join is None else self.join(parts)

    def parts(self, sums: Sequence[Tensor]) -> list[Tensor]:
        """The blocks applied to sums of word vectors."""
        return [block(z) for block, z in zip(self.blocks, sums, strict=True)]


class LabelTexts:
    """The words of labels or clusters on the device, and their co-occurrence graph."""

    def __init__(self, tokens: Tokens, rarity: Tensor, graph: Csr | None) -> None:
        self.rows = TokenRows(tokens.ids, tokens.offsets, rarity.device)
        self.rarity, self.graph, self.n = rarity, graph, len(tokens)

    def sums(self, words: Tensor, labels: Rows | None = None) -> list[Tensor]:
        """(labels, width) sums of the word vectors of each text and, if there is a graph, the same aggregated over it.

        Without `labels` for all labels, which needs no work on the host after the first call.
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
        total = F.embedding_bag(ids, Z, ends, mode="sum", per_sample_weights=weights)  # stores no intermediate product
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


class Parts(GivesLogits, GivesRows):
    """Label vectors composed of parts; label texts are read with the encoder's word vectors."""

    from_texts = True

    def __init__(self, plan: PartsPlan, texts: LabelTexts, encoder: Any, width: int, *, first: bool) -> None:
        """`first`: few nodes, whose free vectors and biases the loop's optimiser updates."""
        self.plan, self.texts, self.encoder, self.n, self.width = plan, texts, encoder, texts.n, width
        self.device = texts.rarity.device
        self.composer = Composer(plan, width, self.n if first else 0).to(self.device)
        self.free: RowTable | None = None
        self.every = self.device.type == "cuda" and self.n <= EVERY

    @property
    def module(self) -> nn.Module:
        return self.composer

    @property
    def table(self) -> Table | None:
        return self.free

    @torch.no_grad()
    def start(self, config: AdamConfig, bias: Tensor, *, learns_bias: bool) -> None:
        """Initialise free vectors as planned, and biases as given."""
        nodes, plan = self.composer.nodes, self.plan
        self.composer.eval()  # no dropout in the initialisation
        if nodes is not None:
            nodes.bias.copy_(bias)
            if plan.init != "random":
                nodes.weight.copy_(self.part(plan.init))
            return
        vectors = self._random if plan.free else self._random[:, :0]
        if plan.free and plan.init != "random":
            vectors = self.part(plan.init)
        if plan.free or learns_bias:
            self.free = RowTable(self.n, vectors.shape[1], config, self.device, bias=learns_bias)
            self.free.init(vectors, bias)

    def draw(self, before: Blocks | None) -> None:
        """Draw the random initialisation before `start`, so that all heads draw in a fixed order.

        Continue from the blocks `before` of an earlier training.
        """
        self._random = nn.init.xavier_uniform_(torch.empty(self.n, self.width)).to(self.device)
        if before is not None:
            state = {key: torch.from_numpy(np.array(value)) for key, value in before.items()}
            self.composer.blocks.load_state_dict(state)

    def logits(self, h: Tensor, ids: Tensor | None) -> Tensor:
        if ids is None:
            vectors, bias = self._all()
            return h @ vectors.T + bias
        seen = torch.zeros(self.n + 1, dtype=torch.bool, device=self.device)
        seen[ids] = True  # padding follows the last label
        if self.every:  # no synchronisation with the host; free vectors of other labels are neither read nor updated
            met = torch.where(seen[:-1], torch.arange(self.n, device=self.device), -1)
            vectors, bias = self._made(met, every=True)
            return (h @ vectors.T + bias).gather(1, torch.where(ids < 0, 0, ids))
        met, place = seen[:-1].nonzero()[:, 0], torch.cumsum(seen, 0) - 1
        vectors, bias = self._made(met)  # a label is a candidate for many texts: compute its vector once
        return (h @ vectors.T + bias).gather(1, place[ids].clamp_max(len(met) - 1))

    def vectors(self, ids: Tensor) -> Tensor:
        return self._made(ids)[0]

    @torch.no_grad()
    def whole(self) -> tuple[Tensor, Tensor]:
        if self.composer.nodes is not None:
            return self._all()
        spans = [self._made(torch.from_numpy(rows).to(self.device)) for rows in _spans(self.n)]
        vectors, biases = (torch.cat(parts) for parts in zip(*spans, strict=True))
        return vectors, biases

    @torch.no_grad()
    def part(self, name: str) -> Tensor:
        """(n, width) the text or graph part of every label or cluster."""
        k = ("text", "graph").index(name)
        return torch.cat([self.composer.parts(self._sums(rows))[k] for rows in _spans(self.n)])

    def blocks(self) -> Blocks:
        """The blocks over label texts as arrays, for a later training that continues from them."""
        return {key: to_float32(value) for key, value in self.composer.blocks.state_dict().items()}

    def _all(self) -> tuple[Tensor, Tensor]:
        """Vectors and biases of all nodes of a first level."""
        nodes = self.composer.nodes
        if nodes is None:
            return self._made(torch.arange(self.n, device=self.device), every=True)
        if not self.plan.text:
            return nodes.weight, nodes.bias
        return self.composer(self._sums(), nodes.weight), nodes.bias

    def _made(self, labels: Tensor, *, every: bool = False) -> tuple[Tensor, Tensor]:
        """(labels, width) vectors and their biases; `every`: all labels in order, -1 where one is not needed."""
        free, bias = None, torch.zeros(len(labels), device=self.device)
        if self.free is not None:
            rows = self.free.take(labels)
            free = rows[:, : self.width] if self.plan.free else None
            bias = rows[:, -1] if self.free.has_bias else bias
        if not self.plan.text and free is not None:
            return free, bias
        sums = self._sums() if every else self._sums(labels.cpu().numpy())
        return self.composer(sums, free), bias

    def _sums(self, rows: Rows | None = None) -> list[Tensor]:
        return self.texts.sums(self.encoder.words, rows)


def _read(words: Tensor, rarity: Tensor, packed: Packed) -> Tensor:
    return sums_of(words, rarity, packed).index_select(0, packed.back)


def _spans(n: int) -> list[Rows]:
    return [np.arange(start, min(start + BLOCK, n)) for start in range(0, n, BLOCK)]


def joined_tokens(tokens: Tokens, parent: NDArray[np.integer], n: int) -> Tokens:
    """Per cluster the words of all its labels, one after the other."""
    order = np.argsort(parent, kind="stable")
    starts, counts = tokens.offsets[order], tokens.lengths[order]
    ends = np.cumsum(counts)
    place = np.arange(int(counts.sum())) + np.repeat(starts - (ends - counts), counts)
    sums = np.bincount(parent, weights=tokens.lengths, minlength=n).astype(np.int64)
    return Tokens(tokens.ids[place], np.concatenate([np.zeros(1, np.int64), np.cumsum(sums)]))
