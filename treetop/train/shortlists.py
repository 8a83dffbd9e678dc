"""Candidates while training, on the device: the children of the best parents, true parents first (teacher forcing).

The torch form of `Candidates` is a rectangle of ids with -1 as padding. Because candidates come as whole clusters,
where a positive label stands in its row is arithmetic, not a search.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from treetop.train.batches import Targets

FORCED = 1e30  # above every score


@dataclass(frozen=True, eq=False)
class Children:
    """The nodes below each parent as a padded table, and where every node stands in it."""

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
def choose(scores: Tensor, positive: Tensor | None, keep: int) -> Tensor:
    """(rows, keep) parents: the best by `scores` (any increasing function of them), true ones first when given.

    Where there are more true ones than places, those with the larger targets stay.
    """
    if positive is not None:
        scores = torch.where(positive > 0, FORCED * (1.0 + positive), scores.float())
    return torch.topk(scores, min(keep, scores.shape[1]), dim=1).indices


@torch.no_grad()
def expand(chosen: Tensor, children: Children) -> Tensor:
    """(rows, keep * widest) candidate ids, -1 = padding; a parent of -1 has no children."""
    return children.table[chosen].flatten(1)


@torch.no_grad()
def targets_of(chosen: Tensor, children: Children, targets: Targets) -> Tensor:
    """(rows, keep * widest) targets of the expanded candidates; positives outside the chosen parents are lost."""
    n_rows, widest = children.table.shape
    place = torch.full((len(chosen), n_rows), -1, dtype=torch.int64, device=chosen.device)
    place.scatter_(1, chosen % n_rows, torch.arange(chosen.shape[1], device=chosen.device).expand_as(chosen))
    which = place[targets.row, children.parent[targets.column]]
    width = chosen.shape[1] * widest
    column = torch.where(which >= 0, which * widest + children.slot[targets.column], width)  # last column: dropped
    return Targets(targets.row, column, targets.value, len(chosen)).dense(width + 1)[:, :width]
