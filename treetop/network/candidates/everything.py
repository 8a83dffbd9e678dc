"""All labels, or all nodes of a level."""

from __future__ import annotations

from dataclasses import dataclass

from treetop.network.candidates.chosen import Chosen, Scored
from treetop.network.targets import BatchTargets
from treetop.train.batches import Batch, Message


@dataclass(frozen=True)
class Everything:
    """All `n`."""

    n: int

    def load(self, batch: Batch, static: bool) -> Message:
        return Message()

    def choose(self, known: BatchTargets, message: Message, above: Scored | None) -> Chosen:
        return Chosen(None, lambda targets: targets.dense(self.n))
