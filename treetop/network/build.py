"""From the plans of heads to heads; combinations that make no sense are refused here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from treetop.core.dataset import Csr, Dataset
from treetop.core.errors import ConfigError
from treetop.core.types import LabelTree
from treetop.features.encoder.tokens import Tokenizer, Tokens
from treetop.features.words.bag import rarity
from treetop.kernels.gpu.full_bce import Loss
from treetop.labels.text import label_words
from treetop.network.candidates.below import Below, Children
from treetop.network.candidates.chosen import Candidates
from treetop.network.candidates.everything import Everything
from treetop.network.candidates.given import GivenLabels, GivenParents
from treetop.network.head import Head, HeadPlan
from treetop.network.init import Init, Start, initialise
from treetop.network.losses.glas import Penalty
from treetop.network.losses.pairs import Reduce
from treetop.network.losses.settings import LossConfig
from treetop.network.projection import Projection
from treetop.network.samplers.mix import Mix
from treetop.network.targets import ancestors, log_odds
from treetop.network.vectors.contract import LabelVectors
from treetop.network.vectors.dense import Dense
from treetop.network.vectors.full_low import table_of
from treetop.network.vectors.parts import Blocks, LabelTexts, Parts, joined_tokens
from treetop.network.vectors.rows import RowTable
from treetop.tensors.devices import World
from treetop.train.optim import AdamConfig, DescentConfig

Lists = NDArray[np.integer]


@dataclass(frozen=True, kw_only=True)
class Learning:
    """How an encoder and its heads learn."""

    encoder: AdamConfig
    heads: AdamConfig
    loss: Loss = "bce"
    reduce: Reduce = "sum"
    bias: bool = True  # of the labels
    forced: bool = True  # true nodes are always among the kept ones (teacher forcing)
    init: Init = "zero"  # label vectors start at the vectors of their texts, or at zero
    init_scale: float = 10.0  # of the cosine with such a vector in a logit
    detach: float = 0.0  # share of the steps, from the first, in which only the first head teaches the encoder
    descent: DescentConfig | None = None  # label vectors over all labels at two bytes a number, by gradient descent


@dataclass(frozen=True, eq=False)
class LabelWords:
    """What label vectors of parts are made from: the labels' words, and how rare words are in the documents."""

    tokenizer: Tokenizer
    documents: Tokens
    encoder: torch.nn.Module
    before: Blocks | None = None  # of an earlier training that this one goes on with


@dataclass(frozen=True, eq=False)
class Blueprint:
    """Heads to be built over a label tree; `given` names the candidates of the only head for each row.

    They are nodes of the tree's first level whose children are scored, or labels where the tree is flat.
    """

    plans: Sequence[HeadPlan]
    tree: LabelTree
    learning: Learning
    given: Lists | None = None
    words: LabelWords | None = None
    start: Mapping[str, Start] = field(default_factory=dict)  # per view where vectors start

    def check(self, dataset: Dataset, mix: Mix | None, penalty: Penalty | None, world: World) -> None:
        """Refuse what cannot go together."""
        for hook in (mix, penalty):
            if hook is not None:
                world.alone(hook.name)
        if mix is not None and dataset.relevance is not None:
            raise ConfigError(f"{mix.name}: cannot mix relevance weights. Leave them out of the data.")
        if mix is not None and self.given is not None:
            raise ConfigError(f"{mix.name}: cannot mix rows whose negatives are fixed. Set negatives=dynamic.")

    def heads(
        self, dataset: Dataset, Y: Csr, device: torch.device, *, world: World, seed: int, penalty: bool
    ) -> list[Head]:
        """Projections and vectors of all heads, drawn in order, then started; `Y` are the targets learnt from."""
        above = ancestors(self.tree)[-len(self.plans) :]
        nodes = [torch.from_numpy(node).to(device) for node in above]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            heads = [
                self._head(t, dataset, None if t == len(self.plans) - 1 else nodes[t], device, world, seed, penalty)
                for t in range(len(self.plans))
            ]
            for head, node in zip(heads, above, strict=True):
                self._start(head, Y, node)
        return heads

    def _head(
        self, t: int, dataset: Dataset, ancestor: torch.Tensor | None, device: torch.device, world: World, seed: int,
        penalty: bool,
    ) -> Head:  # fmt: skip
        plan, learning = self.plans[t], self.learning
        projection = Projection(plan.view_width, plan.dimension, dropout=plan.dropout, length=plan.length).to(device)
        candidates, share = self._candidates(t, device, world)
        return Head(
            plan, self._vectors(t, dataset, device, world, seed, penalty), candidates,
            LossConfig(kind=learning.loss, bce_reduction=learning.reduce),
            projection=projection, device=device, ancestor=ancestor, kept_share=share,
        )  # fmt: skip

    def _candidates(self, t: int, device: torch.device, world: World) -> tuple[Candidates, float]:
        """What a head scores, and how likely a random label is among it."""
        plan, sizes, forced = self.plans[t], self.tree.sizes, self.learning.forced
        if self.given is not None and len(sizes) == 1:
            return GivenLabels(self.given.astype(np.int32), device), max(1e-6, min(1.0, self.given.shape[1] / plan.n))
        if plan.keep == 0:
            return Everything(plan.n), 1.0
        level = t + len(sizes) - len(self.plans)
        children = Children.of(self.tree.parents[level], sizes[level - 1], device)
        share = min(1.0, plan.keep / sizes[level - 1])
        if self.given is not None:
            return GivenParents(children, self.given, sizes[level - 1], forced=forced, world=world), share
        return Below(children, plan.keep, forced), share

    def _vectors(
        self, t: int, dataset: Dataset, device: torch.device, world: World, seed: int, penalty: bool
    ) -> LabelVectors:
        plan, learning, last = self.plans[t], self.learning, t == len(self.plans) - 1
        if plan.parts is not None:
            return self._parts(t, dataset, device)
        if plan.keep == 0 and self.given is None:
            if not last:
                return Dense(plan.n, plan.width).to(device)
            return table_of(
                plan.n, plan.width, learning.descent or learning.heads, device, loss=learning.loss, bias=learning.bias,
                world=world, seed=seed, separate=penalty,
            )  # fmt: skip
        bias = learning.bias or not last
        return RowTable(plan.n, plan.width, learning.heads, device, bias=bias, world=world)

    def _parts(self, t: int, dataset: Dataset, device: torch.device) -> Parts:
        plan, words, last = self.plans[t], self.words, t == len(self.plans) - 1
        if plan.parts is None or words is None:
            raise ValueError("label vectors of parts need the labels' words")
        weights = torch.from_numpy(rarity(words.documents, words.encoder.vocabulary)).to(device)  # type: ignore[arg-type]
        tokens = words.tokenizer.encode(label_words(dataset.labels))
        if not last:
            tokens = joined_tokens(tokens, self.tree.parents[t + 1], plan.n)
        texts = LabelTexts(tokens, weights, plan.parts.graph)
        return Parts(plan.parts, texts, words.encoder, plan.view_width, first=not last)

    def _start(self, head: Head, Y: Csr, ancestor: NDArray[np.int64]) -> None:
        learning, last = self.learning, head.ancestor is None
        if not isinstance(head.vectors, Parts):
            hinge, bias = learning.loss == "squared_hinge", learning.bias or not last
            initialise(head, self.start.get(head.plan.view), Y, ancestor, hinge=hinge, bias=bias)
            return
        if last:
            head.vectors.draw()
            if self.words is not None and self.words.before is not None:
                head.vectors.continue_blocks(self.words.before)
        offset = log_odds(Y, ancestor, head.plan.n)
        if head.kept_share < 1:
            offset = np.minimum(offset - np.float32(np.log(head.kept_share)), np.float32(0.0))
        head.vectors.start(learning.heads, torch.from_numpy(offset).to(head.device), learns_bias=learning.bias)
