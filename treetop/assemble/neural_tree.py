"""Levels of a label tree trained together on one encoder: each reads its own view, the level above picks negatives.

Used by every recipe with an encoder and heads (LightXML, CascadeXML, ...). The first level scores all its nodes;
each further one the children of the best nodes above, the true ones always among them (teacher forcing). Without a
tree the only level is a classifier over all labels that never keeps its logits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from treetop.assemble.inputs import Encoded, Inputs
from treetop.assemble.neural_hooks import NO_HOOKS, Blended, Hooks, Sought, sought_of
from treetop.assemble.neural_start import Begin, Start, log_odds
from treetop.assemble.neural_targets import ancestors, barred_rows, mean_precision, target_rows, with_barred
from treetop.core.dataset import Csr, Dataset
from treetop.core.types import LabelTree
from treetop.kernels.full_bce import Loss, Positives
from treetop.rank.full import EveryLabel
from treetop.rank.full_low import table_of
from treetop.rank.head import Head
from treetop.train.batches import Batch, Loaded, Rows, Targets, send
from treetop.train.devices import ALONE, World
from treetop.train.losses import Reduce, relevance_weights, row_loss
from treetop.train.optim import AdamConfig, DescentConfig
from treetop.train.rows import RowTable, Table
from treetop.train.shortlists import Children, choose, expand, targets_of

WIDTHS = 8  # kept nodes are rounded up to this, so that steps have few shapes


@dataclass(frozen=True)
class LevelPlan:
    """How one level looks: its view, how many nodes above it keep, its bottleneck and dropout."""

    view: str
    view_width: int
    keep: int = 0  # nodes of the level above whose children are candidates
    bottleneck: int = 0  # 0: none
    dropout: float = 0.0
    weight: float = 1.0  # of its loss
    length: float = 0.0  # that vectors are brought to; 0: as they are


@dataclass(frozen=True)
class TreeConfig:
    """What all levels share."""

    encoder: AdamConfig
    head: AdamConfig
    loss: Loss = "bce"
    reduce: Reduce = "sum"
    bias: bool = True  # of the last level
    forced: bool = True  # true nodes are always among the kept
    begin: Begin = "zero"  # label vectors begin at the vectors of their texts, or at nothing
    size: float = 10.0  # how often a cosine with such a vector counts in a margin
    apart: float = 0.0  # share of the steps, from the first, in which only the first level teaches the encoder
    low: DescentConfig | None = None  # a flat level's vectors at two bytes a number, by plain descent


class Branch(nn.Module):
    """What lies between a view and a level's vectors; the first of several levels scores its nodes right here."""

    def __init__(self, plan: LevelPlan, nodes: int = 0) -> None:
        super().__init__()
        self.length = plan.length
        self.dropout = nn.Dropout(plan.dropout)
        self.squeeze = nn.Linear(plan.view_width, plan.bottleneck) if plan.bottleneck else None
        self.width = plan.bottleneck or plan.view_width
        self.nodes = nn.Linear(self.width, nodes) if nodes else None

    def forward(self, view: Tensor) -> Tensor:
        h = view.float()
        h = self.dropout(self.length * F.normalize(h, dim=1) if self.length else h)
        made: Tensor = h if self.squeeze is None else self.squeeze(h)
        return made


class NeuralTree:
    """The task the loop trains."""

    def __init__(
        self,
        inputs: Inputs,
        dataset: Dataset,
        tree: LabelTree,
        plans: Sequence[LevelPlan],
        config: TreeConfig,
        *,
        seed: int = 0,
        world: World = ALONE,
        held_out: Rows | None = None,
        fixed: NDArray[np.integer] | None = None,
        start: Mapping[str, Start] = MappingProxyType({}),
        hooks: Hooks = NO_HOOKS,
        apart: int = 0,
    ) -> None:
        """`fixed` (rows, keep) names the first level's nodes kept for each row, once and for all: static negatives.

        They are taken as they are where `config.forced` is off; -1 stands behind the last of a row.
        `start` says per view where the vectors of levels that read it begin; in the first `apart` steps only the first
        level teaches the encoder.
        """
        device = inputs.device
        hooks.check(dataset, world, fixed is not None)
        self.hooks, self.apart = hooks, apart
        self.fixed = None if fixed is None else torch.from_numpy(np.array(fixed, np.int64)).to(device)
        self.fixed_counts = None if fixed is None else (np.asarray(fixed) >= 0).sum(1)
        self.inputs, self.device, self.plans, self.config, self.world = inputs, device, list(plans), config, world
        self.held_out = np.zeros(0, np.int64) if held_out is None else held_out
        self.Y: Csr = dataset.Y
        self.learned: Csr = dataset.Y if dataset.sample is None else dataset.Y[dataset.sample]
        self.targets = target_rows(dataset.Y, device)
        self.relevance = None if dataset.relevance is None else target_rows(dataset.relevance, device)
        self.barred = barred_rows(dataset, device)
        self.sizes = tree.sizes
        self.children = [
            Children.of(parent, above, device) for parent, above in zip(tree.parents[1:], tree.sizes[:-1], strict=True)
        ]
        above = ancestors(tree)
        self.ancestor = [torch.from_numpy(node).to(device) for node in above]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self._build(config, world, seed)
            for t, node in enumerate(above):
                self._begin(t, node, start.get(self.plans[t].view))

    def _build(self, config: TreeConfig, world: World, seed: int) -> None:
        flat = len(self.plans) == 1
        self.branches = [Branch(plan, self.sizes[0] if t == 0 and not flat else 0) for t, plan in enumerate(self.plans)]
        heads = nn.ModuleList(self.branches).to(self.device)
        self.modules: dict[str, tuple[nn.Module, AdamConfig]] = {"heads": (heads, config.head)}
        self.low: tuple[str, ...] = ()
        if isinstance(self.inputs, Encoded):
            self.modules = {"encoder": (self.inputs.encoder, config.encoder), **self.modules}
            self.low = ("encoder",)
        self.tables: dict[str, Table] = {}
        self.full: EveryLabel | None = None
        self.rows: dict[int, RowTable] = {}
        widths = [branch.width for branch in self.branches]
        if flat:
            self.full = self.tables["labels"] = table_of(
                self.sizes[0], widths[0], config.low or config.head, self.device, loss=config.loss, bias=config.bias,
                world=world, seed=seed, apart=self.hooks.penalty is not None,
            )  # fmt: skip
        for t in range(1, len(self.plans)):
            last = t == len(self.plans) - 1
            table = RowTable(
                self.sizes[t], widths[t], config.head, self.device, bias=config.bias or not last, world=world
            )
            self.rows[t] = table
            self.tables[f"level-{t}"] = table

    @torch.no_grad()
    def _begin(self, t: int, ancestor: NDArray[np.int64], start: Start | None) -> None:
        """Fill a level's vectors and biases; far from the log odds, the first steps would spoil the encoder."""
        n, branch, last = self.sizes[t], self.branches[t], t == len(self.plans) - 1
        given = None if start is None else start.biases
        start = None if given is not None and not last else start
        bias = np.zeros(n, np.float32)
        if self.config.bias or not last:
            bias = (
                np.full(n, -1, np.float32)
                if self.config.loss == "squared_hinge"
                else log_odds(self.learned, ancestor, n)
            )
            if t > 0:  # given that its parent was kept, a node is likelier
                kept = min(1.0, self.plans[t].keep / self.sizes[t - 1])
                bias = np.minimum(bias - np.float32(np.log(kept)), np.float32(0.0))
        if start is not None:
            V = torch.from_numpy(start.vectors if last else start.of_nodes(ancestor, n))
            bias = bias - (V @ torch.from_numpy(start.centre)).numpy() if given is None else given
            if branch.squeeze is not None:  # a turned copy of the view, as far as the bottleneck has room
                nn.init.orthogonal_(branch.squeeze.weight)
                nn.init.zeros_(branch.squeeze.bias)
                V = V @ branch.squeeze.weight.cpu().T
        elif self.full is not None:
            V = torch.zeros(n, branch.width)
        else:
            V = nn.init.xavier_uniform_(torch.empty(n, branch.width))
        V, b = V.to(self.device), torch.from_numpy(bias).to(self.device)
        if self.full is not None:
            self.full.fill(V, b)
        elif branch.nodes is not None:
            branch.nodes.weight.copy_(V)
            branch.nodes.bias.copy_(b)
        else:
            self.rows[t].fill(V, b)

    # --- training ---

    def load(self, batch: Batch, static: bool) -> Loaded:
        rows, more, others = self.hooks.load(batch, self.targets, static and self.barred is None)
        message, shape = self.inputs.load(rows, static)
        static = static and self.barred is None
        triples, total = self.targets.describe(batch.everyone if self.full is not None else batch.rows, static)
        tensors, width = [message, send(triples, self.device)], self._width(batch.rows)
        if self.fixed is not None:
            tensors.append(send(batch.rows, self.device))
        apart = batch.step < self.apart
        key = (shape, total, batch.total, width, others, apart) if static else None
        return Loaded(batch, (*tensors, *more), key, (shape, total, width, others, apart))

    def _width(self, rows: Rows) -> int:
        """Columns of `fixed` that these rows need; few different ones, and the same for all processes."""
        if self.fixed is None or self.fixed_counts is None:
            return 0
        most = self.fixed.shape[1]
        if self.world.size > 1 or self.config.forced:
            return most
        return min(most, -(-int(self.fixed_counts[rows].max(initial=1)) // WIDTHS) * WIDTHS)

    def loss(self, loaded: Loaded) -> Tensor:
        batch = loaded.batch
        if isinstance(self.inputs, Encoded):
            self.inputs.encoder.apart = loaded.facts[4]
        views = self.hooks.views(self.inputs.views(loaded.tensors[0], loaded.facts[0]), loaded)
        if self.full is not None:
            return self._flat_loss(self.full, views, loaded) + self.hooks.price(loaded, self.full.rows_at)
        own = self.targets.targets(loaded.tensors[1], len(batch.rows), loaded.facts[1])
        targets = self.hooks.targets(own, loaded, self.targets)
        relevance = self._relevance(loaded, len(batch.rows))
        barred = self._barred(batch)
        table = self.rows[len(self.plans) - 1]
        total = torch.zeros((), device=self.device) + self.hooks.price(
            loaded, lambda ids: table.take(ids)[:, : table.width]
        )
        ids, scores, y = None, total, None
        chosen = self._fixed(loaded, own)
        if chosen is None:
            scores, y = self._first(views), self._at(0, targets).dense(self.sizes[0])
            total = total + self.plans[0].weight * self._loss(scores, y, None, None).sum() / batch.total
        for t in range(1, len(self.plans)):
            here, last = self._at(t, targets), t == len(self.plans) - 1
            if t > 1 or chosen is None:
                chosen = self._chosen(t, ids, scores, y if self.config.forced else None)
            ids = expand(chosen, self.children[t - 1])
            y = sought_of(chosen, self.children[t - 1], here)
            mask = ids >= 0
            if barred is not None and last:
                mask &= targets_of(chosen, self.children[t - 1], barred) == 0
            weight = None
            if relevance is not None and last:
                weight = relevance_weights(targets_of(chosen, self.children[t - 1], relevance), y)
            scores = self.rows[t].score(self.branches[t](views[self.plans[t].view]), ids)
            total = total + self.plans[t].weight * self._loss(scores, y, mask, weight).sum() / batch.total
        return total

    def _loss(self, scores: Tensor, y: Tensor, mask: Tensor | None, weight: Tensor | None) -> Tensor:
        return row_loss(self.config.loss, scores, y, mask=mask, weight=weight, reduce=self.config.reduce)

    def _relevance(self, loaded: Loaded, n_rows: int) -> Targets | None:
        """Relevance stands exactly where targets stand, so their message finds it too."""
        return None if self.relevance is None else self.relevance.targets(loaded.tensors[1], n_rows, loaded.facts[1])

    def _flat_loss(self, table: EveryLabel, views: Mapping[str, Tensor], loaded: Loaded) -> Tensor:
        batch = loaded.batch
        own = self.targets.targets(loaded.tensors[1], len(batch.everyone), loaded.facts[1])
        sought = self.hooks.targets(own, loaded, self.targets)
        targets = sought.together() if isinstance(sought, Blended) else sought
        relevance = self._relevance(loaded, len(batch.everyone))
        strength = None if relevance is None else relevance.value
        positives = Positives(targets.row, targets.column, targets.value, strength)
        barred = self._barred(batch)
        if barred is not None:
            positives = with_barred(positives, barred)
        scale = 1.0 / batch.total / (self.sizes[0] if self.config.reduce == "mean" else 1)
        return table.score_loss(self.branches[0](views[self.plans[0].view]), positives, scale)

    def _barred(self, batch: Batch) -> Targets | None:
        return self.hooks.barred(self.barred, batch, batch.everyone if self.full is not None else batch.rows)

    def _first(self, views: Mapping[str, Tensor]) -> Tensor:
        """(rows, nodes) scores of all nodes of the first level."""
        branch = self.branches[0]
        if branch.nodes is None:
            raise AttributeError("the first level has no nodes of its own")
        scores: Tensor = branch.nodes(branch(views[self.plans[0].view]))
        return scores

    def _chosen(self, t: int, ids: Tensor | None, scores: Tensor, y: Tensor | None) -> Tensor:
        """(rows, keep) nodes of level t - 1 whose children come next; -1 where a row has fewer."""
        if ids is None:
            return choose(scores.detach(), y, self.plans[t].keep)
        masked = scores.detach().masked_fill(ids < 0, float("-inf"))
        return ids.gather(1, choose(masked, y, self.plans[t].keep))

    def _fixed(self, loaded: Loaded, targets: Targets) -> Tensor | None:
        """(rows, keep) nodes of the first level fixed for these rows, true ones put first where forced; -1 = none."""
        if self.fixed is None:
            return None
        kept = self.fixed[loaded.tensors[2], : loaded.facts[2]]
        if not self.config.forced:
            return kept
        y = self._at(0, targets).dense(self.sizes[0])
        order = torch.arange(kept.shape[1], 0, -1, device=self.device, dtype=torch.float32)
        scores = torch.zeros_like(y).scatter_(1, kept, order.expand(kept.shape))
        return self._chosen(1, None, scores, y)

    def _at(self, t: int, targets: Sought) -> Sought:
        return targets if t == len(self.sizes) - 1 else targets.mapped(self.ancestor[t])

    def tokens(self, rows: Rows) -> int:
        return self.inputs.tokens(rows)

    # --- looking at it ---

    def validate(self) -> float | None:
        """Mean of P@1, P@3 and P@5 on the held-out rows, in percent."""
        if len(self.held_out) == 0:
            return None
        k = min(5, self.sizes[-1])
        top = np.concatenate([self.best(self.held_out[i : i + 1024], k) for i in range(0, len(self.held_out), 1024)])
        return mean_precision(top, self.Y[self.held_out])

    @torch.no_grad()
    def best(self, rows: Rows, k: int) -> NDArray[np.int64]:
        """(rows, k) labels as the trained levels rank them: product of the probabilities along the path."""
        views = self.inputs.views(*self.inputs.load(rows))
        if self.full is not None:
            return self.full.best(self.branches[0](views[self.plans[0].view]), k)[1].cpu().numpy()
        path = self._first(views).sigmoid()
        ids = torch.arange(path.shape[1], device=self.device).expand_as(path)
        for t in range(1, len(self.plans)):
            top = torch.topk(path, min(self.plans[t].keep, path.shape[1]), dim=1)
            ids = expand(ids.gather(1, top.indices), self.children[t - 1])
            above = top.values.repeat_interleave(self.children[t - 1].table.shape[1], dim=1)
            scores = self.rows[t].score(self.branches[t](views[self.plans[t].view]), ids)
            path = (scores.sigmoid() * above).masked_fill(ids < 0, -1.0)
        return ids.gather(1, torch.topk(path, min(k, path.shape[1]), dim=1).indices).cpu().numpy()

    def heads(self) -> list[Head]:
        """The trained levels as they go into a model; labels without training texts are barred from answers."""
        made = []
        seen = np.bincount(self.learned.indices, minlength=self.Y.shape[1]) > 0
        for t, branch in enumerate(self.branches):
            if self.full is not None:
                weight, bias = self.full.whole()
            elif branch.nodes is not None:
                weight, bias = branch.nodes.weight, branch.nodes.bias
            else:
                weight, bias = self.rows[t].whole()
            offset = array(bias).copy()
            if t == len(self.plans) - 1:
                offset[~seen] = -np.inf
            squeeze, length = branch.squeeze, branch.length or 1.0  # a model's views have length 1
            if squeeze is None:
                made.append(Head(length * array(weight), offset))
            else:
                more = {"squeeze": length * array(squeeze.weight), "squeeze_bias": array(squeeze.bias)}
                made.append(Head(array(weight), offset, **more))
        return made


def array(tensor: Tensor) -> NDArray[np.float32]:
    """A trained tensor as a float32 array."""
    return np.ascontiguousarray(tensor.detach().cpu().float().numpy())  # wider only where there is room
