"""Where augmentations meet the levels: batches whose rows are mixed, and a price on the last level's vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from treetop.assemble.neural_targets import joined
from treetop.core.dataset import Dataset
from treetop.core.errors import ConfigError
from treetop.train.batches import Batch, Loaded, Rows, TargetRows, Targets, send
from treetop.train.devices import World
from treetop.train.hooks import Mix, Penalty
from treetop.train.shortlists import Children, targets_of


@dataclass(frozen=True, eq=False)
class Blended:
    """Targets of a mixed batch: share * own + (1 - share) * the partner's, wherever they are looked up."""

    own: Targets
    other: Targets
    share: Tensor  # (rows, 1)

    def of(self, look_up: Callable[[Targets], Tensor]) -> Tensor:
        return self.share * look_up(self.own) + (1.0 - self.share) * look_up(self.other)

    def dense(self, width: int) -> Tensor:
        return self.of(lambda targets: targets.dense(width))

    def mapped(self, parent: Tensor) -> Blended:
        return Blended(self.own.mapped(parent), self.other.mapped(parent), self.share)

    def together(self) -> Targets:
        """All triples with their weighted values; those of one place are to be added, never the largest taken."""
        share = self.share[:, 0]
        own, other = self.own, self.other
        values = own.value * share[own.row], other.value * (1.0 - share[other.row])
        row, column = torch.cat([own.row, other.row]), torch.cat([own.column, other.column])
        return Targets(row, column, torch.cat(values), own.n_rows)


Sought = Targets | Blended


def sought_of(chosen: Tensor, children: Children, targets: Sought) -> Tensor:
    """(rows, candidates) targets of the expanded candidates."""
    if isinstance(targets, Blended):
        return targets.of(lambda part: targets_of(chosen, children, part))
    return targets_of(chosen, children, targets)


@dataclass(frozen=True, eq=False)
class Hooks:
    """The augmentations of a training, or none; their tensors stand behind a step's own."""

    mix: Mix | None = None
    penalty: Penalty | None = None

    def check(self, dataset: Dataset, world: World, fixed: bool) -> None:
        """Refuse what they cannot go together with."""
        for hook in (self.mix, self.penalty):
            if hook is not None:
                world.alone(hook.name)
        if self.mix is not None and dataset.relevance is not None:
            raise ConfigError(f"{self.mix.name}: cannot mix relevance weights. Leave them out of the data.")
        if self.mix is not None and fixed:
            raise ConfigError(f"{self.mix.name}: cannot mix rows whose negatives are fixed. Set negatives=dynamic.")

    def load(self, batch: Batch, targets: TargetRows, static: bool) -> tuple[Rows, list[Tensor], int]:
        """(rows to read, tensors, triples of the partners)."""
        rows, tensors, total = batch.rows, list[Tensor](), 0
        if self.mix is not None:
            drawn = self.mix.draw(batch)
            rows = np.concatenate([batch.rows, drawn.extra])
            triples, total = targets.describe(rows[drawn.partner], static)
            tensors += [send(array, targets.device) for array in (drawn.partner, drawn.share, triples)]
        if self.penalty is not None:
            tensors += [send(array, targets.device) for array in self.penalty.draw(batch)]
        return rows, tensors, total

    def partners(self, batch: Batch) -> Rows:
        """Rows of the data set that the batch's are mixed with; none where nothing is mixed."""
        if self.mix is None:
            return batch.rows[:0]
        drawn = self.mix.draw(batch)
        made: Rows = np.concatenate([batch.rows, drawn.extra])[drawn.partner]
        return made

    def barred(self, rows: TargetRows | None, batch: Batch, own: Rows) -> Targets | None:
        """Pairs that count for nothing, of the rows `own` of a batch and of those they are mixed with."""
        if rows is None:
            return None
        others = self.partners(batch)
        return joined(rows.gather(own), rows.gather(others)) if len(others) else rows.gather(own)

    def views(self, views: Mapping[str, Tensor], loaded: Loaded) -> Mapping[str, Tensor]:
        """Views of the batch's rows, mixed."""
        if self.mix is None:
            return views
        partner, share = loaded.tensors[2:4]
        n, s = len(share), share[:, None]
        return {name: s * view[:n].float() + (1.0 - s) * view[partner].float() for name, view in views.items()}

    def targets(self, own: Targets, loaded: Loaded, rows: TargetRows) -> Sought:
        """Targets of the batch's rows, mixed."""
        if self.mix is None:
            return own
        share, triples = loaded.tensors[3:5]
        return Blended(own, rows.targets(triples, own.n_rows, loaded.facts[3]), share[:, None])

    def price(self, loaded: Loaded, take: Callable[[Tensor], Tensor]) -> Tensor | float:
        """The batch's share of the penalty; `take` gives label vectors."""
        if self.penalty is None:
            return 0.0
        ids, known = loaded.tensors[-2:]
        return self.penalty.loss(take(ids), known) * (len(loaded.batch.rows) / loaded.batch.total)


NO_HOOKS = Hooks()
