"""Candidates named for each row before training: static negatives.

`GivenParents` scores the children of fixed nodes (XR-Transformer's matcher, LightXML's static negatives), `GivenLabels`
single labels (Astec's shortlists of near labels).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from treetop.network.candidates.below import Children
from treetop.network.candidates.chosen import Chosen, Scored, best_places
from treetop.network.targets import BatchTargets, Targets
from treetop.tensors.devices import World
from treetop.tensors.handover import send
from treetop.train.batches import Batch, Message, Rows

WIDTHS = 8  # kept nodes are rounded up to this, so that steps have few shapes


class GivenParents:
    """Children of nodes fixed for each row; where forced, a row's true nodes replace its last ones."""

    def __init__(
        self, children: Children, parents: NDArray[np.integer], n_parents: int, *, forced: bool, world: World
    ) -> None:
        """`parents` (rows, keep) hold nodes of the level above, padded with -1."""
        self.children, self.n_parents, self.forced = children, n_parents, forced
        self.device = children.table.device
        self.parents = torch.from_numpy(np.array(parents, np.int64)).to(self.device)
        self.counts = (np.asarray(parents) >= 0).sum(1)
        self.fixed_width = forced or world.size > 1  # the same for all processes

    def load(self, batch: Batch, static: bool) -> Message:
        return Message({"rows": send(batch.rows, self.device)}, self._width(batch.rows))

    def _width(self, rows: Rows) -> int:
        """Columns that these rows need; few different ones."""
        most = self.parents.shape[1]
        if self.fixed_width:
            return most
        return min(most, -(-int(self.counts[rows].max(initial=1)) // WIDTHS) * WIDTHS)

    def scored(self, given: NDArray[np.integer]) -> Tensor:
        """Labels to score for documents beside the rows, of which these are the nodes."""
        nodes = torch.from_numpy(given.astype(np.int64)).to(self.device)
        return cast(Tensor, self.children.below(nodes).ids)

    def choose(self, known: BatchTargets, message: Message, above: Scored | None) -> Chosen:
        kept = self.parents[message["rows"], : cast(int, message.facts)]
        return self.children.below(self._with_true(kept, known) if self.forced else kept)

    def _with_true(self, kept: Tensor, known: BatchTargets) -> Tensor:
        n = self.n_parents + 1  # the last column takes padding
        true = known.positives.mapped(self.children.parent).dense(n)
        order = torch.arange(kept.shape[1], 0, -1, device=self.device, dtype=torch.float32)
        scores = torch.full_like(true, -torch.inf).scatter_(1, kept % n, order.expand(kept.shape))
        scores[:, -1] = -torch.inf
        best = best_places(scores, true, kept.shape[1])
        return torch.where((scores.gather(1, best) > 0) | (true.gather(1, best) > 0), best, -1)


@dataclass(frozen=True, eq=False)
class GivenLabels:
    """Labels fixed for each row: its positives first, in the order of the target matrix, then others."""

    lists: NDArray[np.int32]  # (rows, width), padded with -1
    device: torch.device

    def load(self, batch: Batch, static: bool) -> Message:
        return Message({"ids": send(self.lists[batch.rows].astype(np.int64), self.device)}, len(batch.rows))

    def scored(self, given: NDArray[np.integer]) -> Tensor:
        """Labels to score for documents beside the rows, which are these."""
        return torch.from_numpy(given.astype(np.int64)).to(self.device)

    def choose(self, known: BatchTargets, message: Message, above: Scored | None) -> Chosen:
        if known.ignored is not None:
            raise ValueError("lists leave out ignored pairs, and so must their targets")
        ids = message["ids"]
        return Chosen(ids, lambda targets: _in_order(targets, ids.shape[1]))


def _in_order(targets: Targets, width: int) -> Tensor:
    """(rows, width) values: the i-th positive of a row is in column i."""
    place = torch.arange(len(targets.row), device=targets.row.device) - torch.searchsorted(targets.row, targets.row)
    column = torch.where((targets.column >= 0) & (place < width), place, width)  # last column: dropped
    return Targets(targets.row, column, targets.value, targets.n_rows).dense(width + 1)[:, :width]
