"""The children of the best nodes of the head above: dynamic negatives, as in LightXML and CascadeXML.

While the head above learns, its best nodes change, so negatives are easy at first and harder later. True nodes are
always among the kept ones (teacher forcing) unless `forced` is off.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from treetop.network.candidates.chosen import Chosen, Scored
from treetop.network.targets import BatchTargets, Targets
from treetop.train.batches import Batch, Message


@dataclass(frozen=True, eq=False)
class Children:
    """The nodes below each parent as a padded table, and the position of every node in it."""

    table: Tensor  # (parents + 1, widest) int64, -1 = padding; the last row is that of no parent (-1)
    parent: Tensor  # (nodes,) int64
    slot: Tensor  # (nodes,) int64, place inside the parent's row

    @classmethod
    def of(cls, parent: NDArray[np.integer], n_parents: int, device: torch.device) -> Children:
        """From the parent of each node."""
        counts = np.bincount(parent, minlength=n_parents)
        order = np.argsort(parent, kind="stable")
        starts = np.cumsum(counts) - counts
        slot = np.empty(len(parent), np.int64)
        slot[order] = np.arange(len(parent)) - np.repeat(starts, counts)
        table = np.full((n_parents + 1, max(1, int(counts.max(initial=0)))), -1, np.int64)
        table[parent, slot] = np.arange(len(parent))
        above = np.array(parent, np.int64)
        return cls(*(torch.from_numpy(part).to(device) for part in (table, above, slot)))

    @torch.no_grad()
    def below(self, nodes: Tensor) -> Chosen:
        """The children of (rows, keep) nodes as candidates; a node of -1 has none."""
        return Chosen(self.table[nodes].flatten(1), lambda targets: self._find(nodes, targets))

    @torch.no_grad()
    def _find(self, nodes: Tensor, targets: Targets) -> Tensor:
        n_rows, widest = self.table.shape
        place = torch.full((len(nodes), n_rows), -1, dtype=torch.int64, device=nodes.device)
        place.scatter_(1, nodes % n_rows, torch.arange(nodes.shape[1], device=nodes.device).expand_as(nodes))
        which = place[targets.row, self.parent[targets.column]]
        width = nodes.shape[1] * widest
        column = torch.where(which >= 0, which * widest + self.slot[targets.column], width)  # last column: dropped
        return Targets(targets.row, column, targets.value, len(nodes)).dense(width + 1)[:, :width]


@dataclass(frozen=True, eq=False)
class Below:
    """Children of the `keep` best nodes above."""

    children: Children
    keep: int
    forced: bool = True

    def load(self, batch: Batch, static: bool) -> Message:
        return Message()

    def choose(self, known: BatchTargets, message: Message, above: Scored | None) -> Chosen:
        if above is None:
            raise ValueError("candidates below a head need a head above")
        return self.children.below(above.best(self.keep, forced=self.forced))
