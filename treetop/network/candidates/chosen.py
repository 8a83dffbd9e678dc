"""Candidates of a batch as a rectangle, and the scores that a head passes to the one below."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from treetop.network.losses.pairs import Pairs, relevance_weights
from treetop.network.targets import BatchTargets, Targets
from treetop.train.batches import Batch, Message


@dataclass(frozen=True, eq=False)
class Scored:
    """A head's scores of its candidates, for the head below."""

    ids: Tensor | None  # (rows, candidates), -1 = padding; None: every node in order
    logits: Tensor  # (rows, candidates), without a graph
    target: Tensor  # (rows, candidates)

    def best(self, keep: int, *, forced: bool) -> Tensor:
        """(rows, keep) nodes by logits, true ones first where forced; -1 where a row has fewer."""
        target = self.target if forced else None
        if self.ids is None:
            return best_places(self.logits, target, keep)
        masked = self.logits.masked_fill(self.ids < 0, float("-inf"))
        return self.ids.gather(1, best_places(masked, target, keep))


@dataclass(frozen=True, eq=False)
class Chosen:
    """Candidates of each row; `find` arranges triples as (rows, candidates), dropping those that are not candidates."""

    ids: Tensor | None  # (rows, candidates), -1 = padding; None: every label in order
    find: Callable[[Targets], Tensor]

    def pairs(self, logits: Tensor, known: BatchTargets) -> Pairs:
        """The candidates with their targets."""
        target = known.positives.look_up(self.find)
        ignored = None if self.ids is None else self.ids < 0
        if known.ignored is not None:
            excluded = self.find(known.ignored) > 0
            ignored = excluded if ignored is None else ignored | excluded
        weight = None if known.relevance is None else relevance_weights(self.find(known.relevance), target)
        return Pairs(logits, target, ignored, weight)


class Candidates(Protocol):
    """Which labels does a row score?"""

    def load(self, batch: Batch, static: bool) -> Message:
        """The message to the device about a batch's candidates."""
        ...

    def choose(self, known: BatchTargets, message: Message, above: Scored | None) -> Chosen: ...


FORCED = 1e30  # above every score


@torch.no_grad()
def best_places(scores: Tensor, target: Tensor | None, keep: int) -> Tensor:
    """(rows, keep) columns of the largest scores, true ones first when `target` is given.

    Where there are more true ones than places, those with the larger targets stay.
    """
    if target is not None:
        scores = torch.where(target > 0, FORCED * (1.0 + target), scores.float())
    return torch.topk(scores, min(keep, scores.shape[1]), dim=1).indices
