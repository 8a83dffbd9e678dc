"""Two levels whose label vectors are made from label texts by the words that texts are read with, and free ones beside.

DECAF's classifier: sigma(a) * w + sigma(b) * u, number by number, where w is free and u is what a residual block makes
of the sum of the label text's word vectors. A cluster's text is all its labels' texts. Once trained, both are one
vector, so prediction never reads a label's text.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from treetop.assemble.inputs import Encoded
from treetop.assemble.neural_start import label_texts, log_odds
from treetop.assemble.neural_targets import ancestors, barred_rows, target_rows
from treetop.assemble.neural_tree import TreeConfig, array
from treetop.core.dataset import Csr, Dataset
from treetop.core.types import LabelTree
from treetop.features.bag import Residual
from treetop.features.tokens import Tokenizer, Tokens
from treetop.rank.head import Head
from treetop.train.batches import Batch, Loaded, Rows, TokenRows, send
from treetop.train.losses import LOSSES, relevance_weights
from treetop.train.optim import AdamConfig
from treetop.train.rows import RowTable, Table
from treetop.train.shortlists import Children, choose, expand, targets_of

BLOCK = 4_096  # labels whose texts are read at a time


class TextSide(nn.Module):
    """What one level adds to words: the block over label texts, and how much free and text vectors count."""

    def __init__(self, width: int, dropout: float, nodes: int = 0) -> None:
        super().__init__()
        self.block = Residual(width, dropout)
        self.free, self.text = nn.Parameter(torch.zeros(width)), nn.Parameter(torch.zeros(width))  # a half each
        self.nodes = nn.Linear(width, nodes) if nodes else None


class LabelTextTree:
    """The task the loop trains: all clusters, then the labels of the kept ones."""

    low = ("encoder",)

    def __init__(
        self, inputs: Encoded, dataset: Dataset, tree: LabelTree, tokenizer: Tokenizer, config: TreeConfig, *,
        keep: int, dropout: float, seed: int,
    ) -> None:  # fmt: skip
        self.inputs, self.device, self.config, self.keep = inputs, inputs.device, config, keep
        learned: Csr = dataset.Y[dataset.learned]
        self.relevance = None if dataset.relevance is None else target_rows(dataset.relevance, self.device)
        self.targets, self.barred = target_rows(dataset.Y, self.device), barred_rows(dataset, self.device)
        clusters, labels = tree.sizes
        tokens = tokenizer.encode(label_texts(dataset))
        self.label_rows = TokenRows(tokens.ids, tokens.offsets, self.device)
        joined = joined_tokens(tokens, tree.parents[1], clusters)
        self.clusters = TokenRows(joined.ids, joined.offsets, self.device).gather(np.arange(clusters))
        self.children = Children.of(tree.parents[1], clusters, self.device)
        above = ancestors(tree)
        self.parent = torch.from_numpy(above[0]).to(self.device)
        self.sizes = (clusters, labels)
        width = inputs.encoder.width
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.sides = nn.ModuleList([TextSide(width, dropout, clusters), TextSide(width, dropout)]).to(self.device)
            vectors = nn.init.xavier_uniform_(torch.empty(labels, width))
        self.table = RowTable(labels, width, config.head, self.device, bias=True)
        odds = [log_odds(learned, node, n) for node, n in zip(above, self.sizes, strict=True)]
        bias = np.minimum(odds[1] - np.float32(np.log(keep / clusters)), np.float32(0.0))  # its cluster was kept
        self.table.fill(torch.cat([vectors, torch.from_numpy(bias)[:, None]], 1).to(self.device))
        with torch.no_grad():
            self._side(0).nodes.bias.copy_(torch.from_numpy(odds[0]))  # type: ignore[union-attr]

    def _side(self, t: int) -> TextSide:
        side = self.sides[t]
        if not isinstance(side, TextSide):
            raise TypeError("no side of label texts")
        return side

    @property
    def modules(self) -> Mapping[str, tuple[nn.Module, AdamConfig]]:
        return {"encoder": (self.inputs.encoder, self.config.encoder), "sides": (self.sides, self.config.encoder)}

    @property
    def tables(self) -> Mapping[str, Table]:
        return {"labels": self.table}

    def load(self, batch: Batch, static: bool) -> Loaded:
        message, shape = self.inputs.load(batch.rows, False)
        triples, total = self.targets.describe(batch.rows, False)
        return Loaded(batch, (message, send(triples, self.device)), None, (shape, total))  # never recorded

    def loss(self, loaded: Loaded) -> Tensor:
        batch, loss = loaded.batch, LOSSES[self.config.loss]
        h = self.inputs.views(loaded.tensors[0], loaded.facts[0])["document"].float()
        targets = self.targets.targets(loaded.tensors[1], len(batch.rows), loaded.facts[1])
        y = targets.mapped(self.parent).dense(self.sizes[0])
        scores = self._cluster_scores(h)
        total = loss(scores, y, reduce=self.config.reduce).sum()
        chosen = choose(scores.detach(), y, self.keep)
        ids, y = expand(chosen, self.children), targets_of(chosen, self.children, targets)
        mask = ids >= 0
        if self.barred is not None:
            mask &= targets_of(chosen, self.children, self.barred.gather(batch.rows)) == 0
        weight = None
        if self.relevance is not None:  # stands where targets stand, so their message finds it too
            known = self.relevance.targets(loaded.tensors[1], len(batch.rows), loaded.facts[1])
            weight = relevance_weights(targets_of(chosen, self.children, known), y)
        total = total + loss(self._label_scores(h, ids), y, mask=mask, weight=weight, reduce=self.config.reduce).sum()
        return total / batch.total

    def _cluster_scores(self, h: Tensor) -> Tensor:
        side = self._side(0)
        texts = side.block(self.inputs.encoder.sums(self.clusters).index_select(0, self.clusters.back))
        free: Tensor = side.nodes(h * side.free.sigmoid())  # type: ignore[misc]
        made: Tensor = free + (h * side.text.sigmoid()) @ texts.T
        return made

    def _label_scores(self, h: Tensor, ids: Tensor) -> Tensor:
        side = self._side(1)
        met, place = torch.unique(ids.clamp_min(0), return_inverse=True)
        texts = (h * side.text.sigmoid()) @ self._texts(met.cpu().numpy()).T
        return self.table.score(h * side.free.sigmoid(), ids) + texts.gather(1, place)

    def _texts(self, labels: Rows) -> Tensor:
        """(labels, width) vectors of label texts."""
        packed = self.label_rows.gather(labels)
        made: Tensor = self._side(1).block(self.inputs.encoder.sums(packed).index_select(0, packed.back))
        return made

    def tokens(self, rows: Rows) -> int:
        return self.inputs.tokens(rows)

    def validate(self) -> float | None:
        """No rows are held out."""
        return None

    @torch.no_grad()
    def heads(self) -> list[Head]:
        """Free and text vectors as one; labels without training texts have their text's."""
        first, second = self._side(0), self._side(1)
        texts = first.block(self.inputs.encoder.sums(self.clusters).index_select(0, self.clusters.back))
        nodes = first.nodes.weight * first.free.sigmoid() + texts * first.text.sigmoid()  # type: ignore[union-attr]
        labels = np.arange(self.sizes[1])
        parts = [self._texts(labels[i : i + BLOCK]) for i in range(0, len(labels), BLOCK)]
        free, bias = self.table.weight[:, :-1], self.table.weight[:, -1]
        vectors = free * second.free.sigmoid() + torch.cat(parts) * second.text.sigmoid()
        return [Head(array(nodes), array(first.nodes.bias)), Head(array(vectors), array(bias))]  # type: ignore[union-attr]


def joined_tokens(tokens: Tokens, parent: NDArray[np.integer], n: int) -> Tokens:
    """Per cluster the words of all its labels, one after the other."""
    order = np.argsort(parent, kind="stable")
    starts, counts = tokens.offsets[order], tokens.lengths[order]
    ends = np.cumsum(counts)
    place = np.arange(int(counts.sum())) + np.repeat(starts - (ends - counts), counts)
    sums = np.bincount(parent, weights=tokens.lengths, minlength=n).astype(np.int64)
    return Tokens(tokens.ids[place], np.concatenate([np.zeros(1, np.int64), np.cumsum(sums)]))
