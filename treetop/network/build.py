"""Builds heads from their plans; invalid combinations are refused here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from treetop.core.dataset import Csr, Dataset
from treetop.core.errors import ConfigError
from treetop.core.types import LabelTree
from treetop.features.encoder.tokens import Tokenizer, Tokens
from treetop.features.words.bag import rarity
from treetop.features.words.layers import WordNet
from treetop.kernels.gpu.full_bce import Loss
from treetop.labels.text import label_words
from treetop.network.candidates.below import Below, Children
from treetop.network.candidates.chosen import Candidates
from treetop.network.candidates.everything import Everything
from treetop.network.candidates.given import GivenLabels, GivenParents
from treetop.network.head import Head, HeadPlan
from treetop.network.init import Init, Start, conditional_bias, initialise
from treetop.network.inputs import Inputs
from treetop.network.losses.glas import Penalty
from treetop.network.losses.pairs import Reduce
from treetop.network.losses.settings import LossConfig
from treetop.network.network import Network, RowTargets
from treetop.network.projection import Projection
from treetop.network.samplers.mix import Mix
from treetop.network.targets import ancestors, log_odds
from treetop.network.vectors.attention import AttentionTable
from treetop.network.vectors.contract import LabelVectors
from treetop.network.vectors.dense import Dense
from treetop.network.vectors.full_low import table_of
from treetop.network.vectors.parts import Blocks, LabelTexts, Parts, PartsPlan, joined_tokens
from treetop.network.vectors.rows import RowTable
from treetop.network.watch import Watched
from treetop.rank.attention import Attention
from treetop.tensors.devices import ALONE, World
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
    """What composed label vectors are built from: the labels' words, and the idf of words in the documents."""

    tokenizer: Tokenizer
    documents: Tokens
    encoder: WordNet
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
    given_held_out: Lists | None = None  # the same for the documents of `Job.held_out`; None: they cannot be ranked
    words: LabelWords | None = None
    above: Attention | None = None  # a trained level whose shared layers label attention starts from
    start: Mapping[str, Start] = field(default_factory=dict)  # per view where vectors start

    def network(
        self, dataset: Dataset, inputs: Inputs, *, seed: int, world: World = ALONE, mix: Mix | None = None,
        penalty: Penalty | None = None, watched: Watched | None = None, targets: RowTargets | None = None,
        detach_steps: int = 0,
    ) -> Network:  # fmt: skip
        """The untrained network over the rows of `dataset`, or of other `targets` of these rows."""
        self.check(dataset, mix, penalty, world)
        known = targets or RowTargets(dataset.Y, dataset.relevance, dataset.ignored)
        learned, learning = np.flatnonzero(dataset.learned), self.learning
        build = _Build(self, dataset, known.Y[learned], inputs.device, world, seed, penalty is not None)
        return Network(
            inputs, build.heads(), known, encoder=learning.encoder, learn=learning.heads, learned=learned,
            watched=watched, mix=mix, penalty=penalty, detach_steps=detach_steps, world=world,
        )  # fmt: skip

    def check(self, dataset: Dataset, mix: Mix | None, penalty: Penalty | None, world: World) -> None:
        """Refuse invalid combinations."""
        for hook in (mix, penalty):
            if hook is not None:
                world.require_one_process(hook.name)
        if mix is not None and dataset.relevance is not None:
            raise ConfigError(f"{mix.name}: cannot mix relevance weights. Leave them out of the data.")
        if mix is not None and self.given is not None:
            raise ConfigError(f"{mix.name}: cannot mix rows whose negatives are fixed. Set negatives=dynamic.")
        views = [plan.view for plan in self.plans]
        if self.learning.detach > 0 and len(set(views)) < len(views):
            raise ConfigError("heads that are detached from the encoder need views of their own.")


@dataclass(frozen=True, eq=False)
class _Build:
    """The heads of a blueprint over a data set; `Y` are the targets of the training rows."""

    blueprint: Blueprint
    dataset: Dataset
    Y: Csr
    device: torch.device
    world: World
    seed: int
    penalty: bool

    def heads(self) -> list[Head]:
        """Projections and vectors of all heads, drawn in order, then initialised."""
        plans = self.blueprint.plans
        above = ancestors(self.blueprint.tree)[-len(plans) :]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            heads = [self._head(t, torch.from_numpy(node).to(self.device)) for t, node in enumerate(above)]
            for head, node in zip(heads, above, strict=True):
                self._start(head, node)
        return heads

    def _last(self, t: int) -> bool:
        return t == len(self.blueprint.plans) - 1

    def _head(self, t: int, node: Tensor) -> Head:
        plan, learning = self.blueprint.plans[t], self.blueprint.learning
        projection = Projection(plan.view_width, plan.dimension, dropout=plan.dropout, length=plan.length)
        projection = projection.to(self.device)
        candidates, share = self._candidates(t)
        return Head(
            plan,
            self._vectors(t),
            candidates,
            LossConfig(kind=learning.loss, bce_reduction=learning.reduce),
            projection=projection,
            device=self.device,
            ancestor=None if self._last(t) else node,
            kept_share=share,
        )

    def _candidates(self, t: int) -> tuple[Candidates, float]:
        """What a head scores, and how likely a random label is among it."""
        plan, tree, given = self.blueprint.plans[t], self.blueprint.tree, self.blueprint.given
        sizes, forced = tree.sizes, self.blueprint.learning.forced
        if given is not None and len(sizes) == 1:
            return GivenLabels(given.astype(np.int32), self.device), max(1e-6, min(1.0, given.shape[1] / plan.n))
        if plan.keep == 0:
            return Everything(plan.n), 1.0
        level = t + len(sizes) - len(self.blueprint.plans)
        children = Children.of(tree.parents[level], sizes[level - 1], self.device)
        share = min(1.0, plan.keep / sizes[level - 1])
        if given is not None:
            return GivenParents(children, given, sizes[level - 1], forced=forced, world=self.world), share
        return Below(children, plan.keep, forced), share

    def _vectors(self, t: int) -> LabelVectors:
        plan, learning, last = self.blueprint.plans[t], self.blueprint.learning, self._last(t)
        if plan.parts is not None:
            return self._parts(t, plan.parts)
        if plan.attention is not None:
            bias, above = learning.bias or not last, self.blueprint.above
            self.world.require_one_process("label attention")
            return AttentionTable(
                plan.n, plan.view_width, plan.attention, learning.heads, self.device, bias=bias, above=above
            )
        if plan.keep == 0 and self.blueprint.given is None:
            if not last:
                return Dense(plan.n, plan.width).to(self.device)
            return table_of(
                plan.n, plan.width, learning.descent or learning.heads, self.device, loss=learning.loss,
                bias=learning.bias, world=self.world, seed=self.seed, separate=self.penalty,
            )  # fmt: skip
        bias = learning.bias or not last
        return RowTable(plan.n, plan.width, learning.heads, self.device, bias=bias, world=self.world)

    def _parts(self, t: int, parts: PartsPlan) -> Parts:
        plan, words, last = self.blueprint.plans[t], self.blueprint.words, self._last(t)
        if words is None:
            raise ValueError("label vectors of parts need the labels' words")
        weights = torch.from_numpy(rarity(words.documents, words.encoder.vocabulary)).to(self.device)
        tokens = words.tokenizer.encode(label_words(self.dataset.labels))
        if not last:
            tokens = joined_tokens(tokens, self.blueprint.tree.parents[t + 1], plan.n)
        texts = LabelTexts(tokens, weights, parts.graph)
        return Parts(parts, texts, words.encoder, plan.view_width, first=not last)

    def _start(self, head: Head, ancestor: NDArray[np.int64]) -> None:
        learning, words, last = self.blueprint.learning, self.blueprint.words, head.ancestor is None
        if not isinstance(head.vectors, Parts):
            hinge, bias = learning.loss == "squared_hinge", learning.bias or not last
            start = self.blueprint.start.get(head.plan.view)
            initialise(head, start, self.Y, ancestor, hinge=hinge, bias=bias)
            return
        if last:
            head.vectors.draw(None if words is None else words.before)
        offset = conditional_bias(log_odds(self.Y, ancestor, head.plan.n), head.kept_share)
        head.vectors.start(learning.heads, torch.from_numpy(offset).to(head.device), learns_bias=learning.bias)
