"""Two levels whose label vectors are made from label texts by the words that texts are read with.

What a vector is made of says a `Makeup` for each level: DECAF's has the text and a free vector, ECLARE's and
InceptionXML-LF's the label graph too. A cluster's text is all its labels' texts. Once trained, all parts are one
vector, so prediction never reads a label's text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from treetop.assemble.inputs import Encoded
from treetop.assemble.label_parts import LabelTexts, Makeup, Side, joined_tokens
from treetop.assemble.neural_hooks import NO_HOOKS, Hooks, sought_of
from treetop.assemble.neural_start import log_odds
from treetop.assemble.neural_targets import ancestors, barred_rows, target_rows
from treetop.assemble.neural_tree import TreeConfig, array
from treetop.core.dataset import Csr, Dataset
from treetop.core.types import LabelTree
from treetop.features.bag import rarity
from treetop.features.tokens import Tokenizer, Tokens
from treetop.labels.text import label_words
from treetop.rank.head import Head
from treetop.train.batches import Batch, Loaded, Rows, send
from treetop.train.devices import ALONE
from treetop.train.losses import relevance_weights, row_loss
from treetop.train.optim import AdamConfig
from treetop.train.rows import RowTable, Table
from treetop.train.shortlists import Children, choose, expand, targets_of

BLOCK = 4_096  # labels whose texts are read at a time
EVERY = 1 << 17  # labels up to which a GPU makes the vectors of all: a batch's candidates are most of them
Blocks = Mapping[str, NDArray[np.float32]]


class LabelTextTree:
    """The task the loop trains: all clusters, then the labels of the kept ones."""

    low = ("encoder",)

    def __init__(
        self, inputs: Encoded, dataset: Dataset, tree: LabelTree, plans: Sequence[Makeup], config: TreeConfig, *,
        tokenizer: Tokenizer, documents: Tokens, keep: int, seed: int, hooks: Hooks = NO_HOOKS,
        blocks: Blocks | None = None,
    ) -> None:  # fmt: skip
        """`documents` say how rare words are; `blocks` are what an earlier training made of the labels' own."""
        self.inputs, self.device, self.plans, self.config, self.keep = inputs, inputs.device, list(plans), config, keep
        hooks.check(dataset, ALONE, False)
        self.hooks = hooks
        self.relevance = None if dataset.relevance is None else target_rows(dataset.relevance, self.device)
        self.targets, self.barred = target_rows(dataset.Y, self.device), barred_rows(dataset, self.device)
        self.sizes = (tree.sizes[0], tree.sizes[1])
        self.every = self.device.type == "cuda" and self.sizes[1] <= EVERY
        self.children = Children.of(tree.parents[1], self.sizes[0], self.device)
        self.parent = torch.from_numpy(ancestors(tree)[0]).to(self.device)
        weights = torch.from_numpy(rarity(documents, inputs.encoder.vocabulary)).to(self.device)
        own = tokenizer.encode(label_words(dataset.labels))
        tokens = (joined_tokens(own, tree.parents[1], self.sizes[0]), own)
        self.texts = [LabelTexts(held, weights, plan.graph) for held, plan in zip(tokens, plans, strict=True)]
        widths = {pooling.name: inputs.encoder.view_width(pooling) for pooling in inputs.poolings}
        self.width = widths[plans[1].view]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.pair = Side(widths[plans[0].view], plans[0], self.sizes[0]), Side(self.width, plans[1])
            self.sides = nn.ModuleList(self.pair).to(self.device)
            vectors = nn.init.xavier_uniform_(torch.empty(self.sizes[1], self.width)).to(self.device)
        if blocks is not None:
            held = {key: torch.from_numpy(np.array(value)) for key, value in blocks.items()}
            self.pair[1].blocks.load_state_dict(held)
        self._begin(dataset, tree, vectors)

    @torch.no_grad()
    def _begin(self, dataset: Dataset, tree: LabelTree, vectors: Tensor) -> None:
        """Free vectors where the plan says, biases at the log odds."""
        learned: Csr = dataset.Y[dataset.learned]
        odds = [log_odds(learned, node, n) for node, n in zip(ancestors(tree), self.sizes, strict=True)]
        kept = np.float32(np.log(self.keep / self.sizes[0]))  # its cluster was
        bias = np.minimum(odds[1] - kept, np.float32(0.0))
        nodes, free = self.pair[0].nodes, self.plans[1].free
        self.sides.eval()
        if nodes is not None:
            nodes.bias.copy_(torch.from_numpy(odds[0]))
            if self.plans[0].begin != "random":
                nodes.weight.copy_(self._part(0, self.plans[0].begin))
        if not free:
            vectors = vectors[:, :0]
        elif self.plans[1].begin != "random":
            vectors = self._part(1, self.plans[1].begin)
        self.table: RowTable | None = None
        if free or self.config.bias:
            width = vectors.shape[1]
            self.table = RowTable(self.sizes[1], width, self.config.head, self.device, bias=self.config.bias)
            self.table.fill(vectors, torch.from_numpy(bias).to(self.device))

    def _part(self, t: int, name: str) -> Tensor:
        """(n, width) what the block over texts or over the graph makes of every label or cluster."""
        k = ("text", "graph").index(name)
        return torch.cat([self.pair[t].parts(self._sums(t, rows))[k] for rows in _spans(self.sizes[t])])

    @property
    def modules(self) -> Mapping[str, tuple[nn.Module, AdamConfig]]:
        return {"encoder": (self.inputs.encoder, self.config.encoder), "sides": (self.sides, self.config.encoder)}

    @property
    def tables(self) -> Mapping[str, Table]:
        return {} if self.table is None else {"labels": self.table}

    def load(self, batch: Batch, static: bool) -> Loaded:
        rows, more, others = self.hooks.load(batch, self.targets, False)
        message, shape = self.inputs.load(rows, False)
        triples, total = self.targets.describe(batch.rows, False)
        tensors = (message, send(triples, self.device), *more)
        return Loaded(batch, tensors, None, (shape, total, 0, others))  # never recorded

    def loss(self, loaded: Loaded) -> Tensor:
        batch, n = loaded.batch, len(loaded.batch.rows)
        views = self.hooks.views(self.inputs.views(loaded.tensors[0], loaded.facts[0]), loaded)
        first, second = (
            side.view_dropout(views[plan.view].float()) for side, plan in zip(self.pair, self.plans, strict=True)
        )
        own = self.targets.targets(loaded.tensors[1], n, loaded.facts[1])
        targets = self.hooks.targets(own, loaded, self.targets)
        y = targets.mapped(self.parent).dense(self.sizes[0])
        scores = self.cluster_scores(first)
        loss, reduce = self.config.loss, self.config.reduce
        total = row_loss(loss, scores, y, reduce=reduce).sum()
        chosen = choose(scores.detach(), y, self.keep)
        ids, y = expand(chosen, self.children), sought_of(chosen, self.children, targets)
        mask, weight = ids >= 0, None
        barred = self.hooks.barred(self.barred, batch, batch.rows)
        if barred is not None:
            mask &= targets_of(chosen, self.children, barred) == 0
        if self.relevance is not None:  # stands where targets stand, so their message finds it too
            known = self.relevance.targets(loaded.tensors[1], n, loaded.facts[1])
            weight = relevance_weights(targets_of(chosen, self.children, known), y)
        scores = self.label_scores(second, ids)
        total = total + row_loss(loss, scores, y, mask=mask, weight=weight, reduce=reduce).sum()
        return total / batch.total + self.hooks.price(loaded, lambda found: self._vectors(found)[0])

    def cluster_scores(self, h: Tensor) -> Tensor:
        """(rows, clusters) margins."""
        vectors, bias = self._nodes()
        return h @ vectors.T + bias

    def label_scores(self, h: Tensor, ids: Tensor) -> Tensor:
        """(rows, candidates) margins; those of padding mean nothing."""
        n = self.sizes[1]
        seen = torch.zeros(n + 1, dtype=torch.bool, device=self.device)
        seen[ids] = True  # padding stands behind the last label
        if self.every:  # the host need not know who was met: the others' free vectors are neither read nor moved
            met = torch.where(seen[:-1], torch.arange(n, device=self.device), -1)
            vectors, bias = self._vectors(met, every=True)
            return (h @ vectors.T + bias).gather(1, torch.where(ids < 0, 0, ids))
        met, place = seen[:-1].nonzero()[:, 0], torch.cumsum(seen, 0) - 1
        vectors, bias = self._vectors(met)  # a label is a candidate of many texts: one product for all
        return (h @ vectors.T + bias).gather(1, place[ids].clamp_max(len(met) - 1))

    def _nodes(self) -> tuple[Tensor, Tensor]:
        """Vectors and biases of all clusters."""
        side = self.pair[0]
        if side.nodes is None:
            raise AttributeError("clusters have no nodes of their own")
        if not self.plans[0].text:
            return side.nodes.weight, side.nodes.bias
        return side.vectors(self._sums(0), side.nodes.weight), side.nodes.bias

    def _vectors(self, labels: Tensor, *, every: bool = False) -> tuple[Tensor, Tensor]:
        """(labels, width) vectors and their biases; `every`: all labels in order, -1 where one is not needed."""
        free, bias = None, torch.zeros(len(labels), device=self.device)
        if self.table is not None:
            rows = self.table.take(labels)
            free = rows[:, : self.width] if self.plans[1].free else None
            bias = rows[:, -1] if self.table.has_bias else bias
        if not self.plans[1].text and free is not None:
            return free, bias
        sums = self._sums(1) if every else self._sums(1, labels.cpu().numpy())
        return self.pair[1].vectors(sums, free), bias

    def _sums(self, t: int, rows: Rows | None = None) -> list[Tensor]:
        return self.texts[t].sums(self.inputs.encoder.words, rows)

    def tokens(self, rows: Rows) -> int:
        return self.inputs.tokens(rows)

    def validate(self) -> float | None:
        """No rows are held out."""
        return None

    @torch.no_grad()
    def heads(self) -> list[Head]:
        """All parts as one vector for each cluster and label; labels without training texts have their text's."""
        nodes = [array(part) for part in self._nodes()]
        spans = [self._vectors(torch.from_numpy(rows).to(self.device)) for rows in _spans(self.sizes[1])]
        return [Head(*nodes), Head(*(array(torch.cat(parts)) for parts in zip(*spans, strict=True)))]

    @torch.no_grad()
    def text_vectors(self) -> NDArray[np.float32]:
        """(labels, width) the part that is made from each label's own text."""
        return array(self._part(1, "text"))

    def blocks(self) -> Blocks:
        """The blocks over labels' texts as arrays."""
        return {key: array(value) for key, value in self.pair[1].blocks.state_dict().items()}


def _spans(n: int) -> list[Rows]:
    return [np.arange(start, min(start + BLOCK, n)) for start in range(0, n, BLOCK)]
