"""An encoder and heads trained together on rows: the task of the loop.

The first head scores all its nodes, each further one the children of the best nodes above; or one head scores all
labels, or those given for each row. All gradients reach the encoder in one backward pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from treetop.core.dataset import Csr
from treetop.core.types import Rank
from treetop.network.candidates.below import Below
from treetop.network.candidates.given import GivenLabels, GivenParents
from treetop.network.head import Head
from treetop.network.inputs import Encoded, Inputs
from treetop.network.losses.glas import Penalty
from treetop.network.samplers.mix import Mix, mixed_targets, mixed_views
from treetop.network.targets import BatchTargets, TargetRows, joined
from treetop.network.vectors.contract import GivesRows
from treetop.network.watch import Watched
from treetop.tensors.devices import ALONE, World
from treetop.train.batches import Batch, Loaded, Message, Rows
from treetop.train.optim import AdamConfig
from treetop.train.task import Table, Validation

HELD = 1024  # held-out rows scored at a time


@dataclass(frozen=True, eq=False)
class RowTargets:
    """Targets of all rows, with relevance weights and ignored pairs if there are any."""

    Y: Csr
    relevance: Csr | None = None
    ignored: Csr | None = None


class Network:
    """The task the loop trains."""

    def __init__(
        self, inputs: Inputs, heads: Sequence[Head], known: RowTargets, *, encoder: AdamConfig, learn: AdamConfig,
        learned: Rows, watched: Watched | None = None, mix: Mix | None = None, penalty: Penalty | None = None,
        detach_steps: int = 0, world: World = ALONE,
    ) -> None:  # fmt: skip
        """`encoder` and `learn` say how encoder and heads learn, `learned` which rows labels are seen in.

        In the first `detach_steps` steps only the first head teaches what views share.
        """
        self.inputs, self.heads, self.device, self.world = inputs, list(heads), inputs.device, world
        self.mix, self.penalty, self.detach_steps = mix, penalty, detach_steps
        self.watched = watched
        self.seen = np.bincount(known.Y[learned].indices, minlength=known.Y.shape[1]) > 0
        self.positives = TargetRows(known.Y, self.device)
        self.relevance, self.ignored = (
            None if matrix is None else TargetRows(matrix, self.device) for matrix in (known.relevance, known.ignored)
        )
        self.modules = self._modules(encoder, learn)
        self.low = ("encoder",) if isinstance(inputs, Encoded) else ()
        tables = {head.name: head.vectors.table for head in self.heads}
        self.tables: dict[str, Table] = {name: table for name, table in tables.items() if table is not None}
        self._everyone = any(
            head.one_pass is not None for head in self.heads
        )  # whose tables need all processes' targets

    def _modules(self, encoder: AdamConfig, learn: AdamConfig) -> dict[str, tuple[nn.Module, AdamConfig]]:
        """Blocks over label texts learn as the encoder does, pools of windows as the heads, everything else too."""
        groups: dict[str, tuple[nn.Module, AdamConfig]] = {}
        if self.inputs.pools is not None:
            groups["windows"] = self.inputs.pools, learn
        if isinstance(self.inputs, Encoded):
            groups["encoder"] = self.inputs.encoder, encoder
        modules = [(vectors.module, vectors.from_texts) for vectors in (head.vectors for head in self.heads)]
        composers = nn.ModuleList([module for module, from_texts in modules if module is not None and from_texts])
        if len(composers):
            groups["composers"] = composers, encoder
        others = [module for module, from_texts in modules if module is not None and not from_texts]
        groups["heads"] = nn.ModuleList([*(head.projection for head in self.heads), *others]), learn
        return groups

    def state(self) -> Mapping[str, Tensor]:
        """Nothing besides the weights."""
        return {}

    # --- training ---

    def load(self, batch: Batch, static: bool) -> Loaded:
        static = static and self.ignored is None and not any(head.varies for head in self.heads)
        rows, known = batch.rows, batch.everyone if self._everyone else batch.rows
        mixed = None if self.mix is None else self.mix.draw(batch)
        parts = {"inputs": self.inputs.load(rows if mixed is None else np.concatenate([rows, mixed.extra]), static)}
        parts["targets"] = self.positives.load(known, static)
        if mixed is not None:
            parts["mix"] = mixed.load(batch, self.positives, static)
        if self.ignored is not None:
            parts["ignored"] = self.ignored.load(known)
            parts["ignored of partners"] = self.ignored.load(rows[:0] if mixed is None else mixed.rows(batch))
        if self.penalty is not None:
            parts["penalty"] = self.penalty.load(batch, self.device)
        parts |= {head.name: head.candidates.load(batch, static) for head in self.heads}
        parts["detached"] = Message(facts=batch.step < self.detach_steps)
        return Loaded(batch, parts, static)

    def loss(self, loaded: Loaded) -> Tensor:
        detached = [head.plan.view for head in self.heads[1:]] if loaded.parts["detached"].facts else []
        views = self.inputs.views(loaded.parts["inputs"], detached)
        if self.mix is not None:
            views = mixed_views(views, loaded.parts["mix"])
        known, above = self._known(loaded), None
        total = torch.zeros((), device=self.device) + self._penalty(loaded)
        for head in self.heads:
            share, above = head.loss(views, known, loaded, above)
            total = total + share
        return total

    def _known(self, loaded: Loaded) -> BatchTargets:
        message = loaded.parts["targets"]
        targets = self.positives.targets(message)
        positives = targets if self.mix is None else mixed_targets(targets, loaded.parts["mix"], self.positives)
        # Relevance has the sparsity pattern of the targets, so their message serves it too.
        relevance = None if self.relevance is None else self.relevance.targets(message)
        ignored = None
        if self.ignored is not None:
            ignored = self.ignored.targets(loaded.parts["ignored"])
            if self.mix is not None:
                ignored = joined(ignored, self.ignored.targets(loaded.parts["ignored of partners"]))
        return BatchTargets(positives, relevance, ignored)

    def _penalty(self, loaded: Loaded) -> Tensor | float:
        """The batch's share of the penalty on the last head's vectors."""
        if self.penalty is None:
            return 0.0
        message, last = loaded.parts["penalty"], self.heads[-1].vectors
        if not isinstance(last, GivesRows):
            raise TypeError(f"{type(last).__name__} has no rows for penalties")
        value = self.penalty.loss(last.vectors(message["ids"]), message)
        return value * (len(loaded.batch.rows) / loaded.batch.total)

    def tokens(self, rows: Rows) -> int:
        return self.inputs.tokens(rows)

    # --- looking at it ---

    def validate(self) -> Validation | None:
        """Figures on the documents that are watched."""
        if (seen := self.watched) is None:
            return None
        blocks = [seen.rows[start : start + HELD] for start in range(0, len(seen.rows), HELD)]
        return seen.validation(np.concatenate([self.top_labels(rows, seen.k, seen) for rows in blocks]))

    @torch.no_grad()
    def top_labels(self, rows: Rows, k: int, seen: Watched | None = None) -> NDArray[np.int64]:
        """(rows, k) labels as the trained heads rank them: product of the probabilities along the path.

        The rows are those of the training data, or of the documents that are watched.
        """
        inputs = self.inputs if seen is None else seen.inputs
        views = inputs.views(inputs.load(rows))
        first, *below = self.heads
        h = first.projection(views[first.plan.view])
        if isinstance(first.candidates, GivenLabels | GivenParents):
            if seen is None or seen.given is None:
                raise TypeError("documents whose candidates are not given cannot be ranked")
            ids = first.candidates.scored(seen.given[rows])
            path = first.logits(h, ids).sigmoid().masked_fill(ids < 0, -1.0)
            return ids.gather(1, torch.topk(path, min(k, path.shape[1]), dim=1).indices).cpu().numpy()
        if first.one_pass is not None:
            return first.one_pass.best(h, k)[1].cpu().numpy()
        path = first.logits(h, None).sigmoid()
        ids = torch.arange(path.shape[1], device=self.device).expand_as(path)
        for head in below:
            if not isinstance(head.candidates, Below):
                raise TypeError("only heads below each other can be validated")
            top, children = torch.topk(path, min(head.candidates.keep, path.shape[1]), dim=1), head.candidates.children
            ids = children.table[ids.gather(1, top.indices)].flatten(1)
            above = top.values.repeat_interleave(children.table.shape[1], dim=1)
            logits = head.logits(head.projection(views[head.plan.view]), ids)
            path = (logits.sigmoid() * above).masked_fill(ids < 0, -1.0)
        return ids.gather(1, torch.topk(path, min(k, path.shape[1]), dim=1).indices).cpu().numpy()

    def ranks(self) -> list[Rank]:
        """The trained heads as they go into a model; unseen labels are excluded, unless their text is informative."""
        *above, last = self.heads
        unseen = None if last.vectors.from_texts else ~self.seen
        return [*(head.rank() for head in above), last.rank(unseen)]
