"""Rows mixed with a partner: vectors and targets become share * own + (1 - share) * the partner's.

Partners are drawn on the host from (seed, step), so that a resumed run draws the same and a recorded step only gets new
numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from torch import Tensor

from treetop.core.dataset import Csr
from treetop.core.types import Floats
from treetop.network.targets import MixedTargets, TargetRows, Targets
from treetop.tensors.handover import send
from treetop.train.batches import Batch, Message, Rows


@dataclass(frozen=True)
class Mixed:
    """The partners of a batch's rows."""

    extra: Rows  # further rows of the data set to read
    partner: Rows  # (rows,) indices into the batch's rows followed by the extra ones
    share: Floats  # (rows,) of the row itself

    def rows(self, batch: Batch) -> Rows:
        """Rows of the data set the batch's are mixed with."""
        return np.concatenate([batch.rows, self.extra])[self.partner]

    def load(self, batch: Batch, targets: TargetRows, static: bool) -> Message:
        """Partners, shares and the partners' targets on the device."""
        known = targets.load(self.rows(batch), static)
        tensors = {"partner": send(self.partner, targets.device), "share": send(self.share, targets.device)}
        return Message({**tensors, **known.tensors}, known.facts)


def mixed_views(views: Mapping[str, Tensor], message: Message) -> Mapping[str, Tensor]:
    """Views of the batch's rows, mixed."""
    partner, share = message["partner"], message["share"]
    n, s = len(share), share[:, None]
    return {name: s * view[:n].float() + (1.0 - s) * view[partner].float() for name, view in views.items()}


def mixed_targets(own: Targets, message: Message, rows: TargetRows) -> MixedTargets:
    """Targets of the batch's rows, mixed."""
    return MixedTargets(own, rows.targets(message), message["share"][:, None])


class Mix(Protocol):
    """Draws partners."""

    name: str

    def draw(self, batch: Batch) -> Mixed: ...


@dataclass(frozen=True)
class BatchMix:
    """MixUp: partners are other rows of the batch, shares are Beta(alpha, alpha)."""

    alpha: float
    seed: int
    name: str = "mixup"

    def draw(self, batch: Batch) -> Mixed:
        rng, n = step_generator(self.seed, batch), len(batch.rows)
        partner = rng.permutation(n)
        return Mixed(np.zeros(0, np.int64), partner, rng.beta(self.alpha, self.alpha, n).astype(np.float32))


@dataclass(frozen=True, eq=False)
class LabelMix:
    """Label-MixUp: the partner of a row is the text of one of its labels; rows without such a text are not mixed."""

    alpha: float
    seed: int
    Y: Csr
    row: Rows  # (labels,) the row of each label's text, -1: none
    name: str = "label_mixup"

    def draw(self, batch: Batch) -> Mixed:
        rng, rows = step_generator(self.seed, batch), batch.rows
        share = rng.beta(self.alpha, self.alpha, len(rows)).astype(np.float32)
        known = np.where(rows < self.Y.shape[0], rows, 0)  # a recipe may append rows
        first, counts = self.Y.indptr[known], self.Y.indptr[known + 1] - self.Y.indptr[known]
        counts = np.where(rows < self.Y.shape[0], counts, 0)
        place = first + (rng.random(len(rows)) * counts).astype(np.int64)
        label = self.Y.indices[np.minimum(place, max(0, self.Y.nnz - 1))] if self.Y.nnz else np.zeros_like(rows)
        text = np.where(counts > 0, self.row[label], -1)
        alone = text < 0
        # A row without partner reads itself once more, so that all batches of a size have one shape.
        return Mixed(
            np.where(alone, rows, text), len(rows) + np.arange(len(rows)), np.where(alone, np.float32(1), share)
        )


def step_generator(seed: int, batch: Batch) -> np.random.Generator:
    """What an augmentation draws in a step."""
    return np.random.default_rng([seed, 6, batch.step, int(batch.rows[0]) if len(batch.rows) else 0])
