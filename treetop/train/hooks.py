"""What augmentations add to a step: rows mixed with others (`Mix`), and a price on label vectors (`Penalty`).

Both draw on the host from (seed, step), so that a resumed run draws the same and a recorded step only gets new numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from treetop.core.dataset import Csr
from treetop.core.types import Floats
from treetop.train.batches import Batch, Rows


@dataclass(frozen=True)
class Mixed:
    """How each row of a batch is mixed: its vector becomes share * own + (1 - share) * partner's, targets alike."""

    extra: Rows  # rows of the data set to read beside the batch's
    partner: Rows  # (rows,) places among the batch's rows and, behind them, the extra ones
    share: Floats  # (rows,)


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
        rng, n = _generator(self.seed, batch), len(batch.rows)
        partner = rng.permutation(n)
        return Mixed(np.zeros(0, np.int64), partner, rng.beta(self.alpha, self.alpha, n).astype(np.float32))


@dataclass(frozen=True, eq=False)
class LabelMix:
    """Label-MixUp: the partner of a row is the text of one of its labels; rows without such a text stay alone."""

    alpha: float
    seed: int
    Y: Csr
    row: Rows  # (labels,) the row of each label's text, -1: none
    name: str = "label_mixup"

    def draw(self, batch: Batch) -> Mixed:
        rng, rows = _generator(self.seed, batch), batch.rows
        share = rng.beta(self.alpha, self.alpha, len(rows)).astype(np.float32)
        known = np.where(rows < self.Y.shape[0], rows, 0)  # a recipe may have rows of its own behind these
        first, held = self.Y.indptr[known], self.Y.indptr[known + 1] - self.Y.indptr[known]
        held = np.where(rows < self.Y.shape[0], held, 0)
        place = first + (rng.random(len(rows)) * held).astype(np.int64)
        label = self.Y.indices[np.minimum(place, max(0, self.Y.nnz - 1))] if self.Y.nnz else np.zeros_like(rows)
        text = np.where(held > 0, self.row[label], -1)
        alone = text < 0
        # A row without partner reads itself once more, so that all batches of a size have one shape.
        return Mixed(
            np.where(alone, rows, text), len(rows) + np.arange(len(rows)), np.where(alone, np.float32(1), share)
        )


class Penalty(Protocol):
    """A price on label vectors."""

    name: str

    def draw(self, batch: Batch) -> tuple[Rows, Floats]:
        """(labels, their part of what the price goes by); always of the same shapes."""
        ...

    def loss(self, vectors: Tensor, known: Tensor) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class GramPenalty:
    """GLaS: inner products of label vectors (their cosines where `unit`) should be the shares of a label graph.

    A step looks at `labels` labels: those of its texts, then others by chance.
    """

    S: Csr  # (labels, labels) symmetric
    Y: Csr
    weight: float
    labels: int
    unit: bool
    seed: int
    name: str = "glas"

    def draw(self, batch: Batch) -> tuple[Rows, Floats]:
        rng, n = _generator(self.seed, batch), self.S.shape[0]
        rows = batch.rows[batch.rows < self.Y.shape[0]]  # a recipe may have rows of its own behind these
        own = rng.permutation(np.unique(self.Y[rows].indices))[: self.labels]
        more = rng.permutation(n) if n < 8 * self.labels else rng.integers(0, n, 4 * self.labels)
        ids = np.concatenate([own, more]).astype(np.int64)
        ids = ids[np.sort(np.unique(ids, return_index=True)[1])][: min(self.labels, n)]
        return ids, self.S[ids][:, ids].toarray().astype(np.float32)

    def loss(self, vectors: Tensor, known: Tensor) -> Tensor:
        w = torch.nn.functional.normalize(vectors, dim=1) if self.unit else vectors
        return self.weight * (w @ w.T - known).square().mean()


def _generator(seed: int, batch: Batch) -> np.random.Generator:
    return np.random.default_rng([seed, 6, batch.step, int(batch.rows[0]) if len(batch.rows) else 0])
