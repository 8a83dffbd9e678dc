"""GLaS (Guo et al. 2019): inner products of label vectors should match the entries of a label graph.

Penalty: λ · mean (w_i · w_j - s_ij)² over sampled labels per step: first those of its rows, then random ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from treetop.core.dataset import Csr
from treetop.network.samplers.mix import step_generator
from treetop.tensors.handover import send
from treetop.train.batches import Batch, Message


class Penalty(Protocol):
    """A regulariser of label vectors."""

    name: str

    def load(self, batch: Batch, device: torch.device) -> Message:
        """The labels of a step (`ids`) and the targets of their penalty; shapes are constant."""
        ...

    def loss(self, vectors: Tensor, message: Message) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class GramPenalty:
    """GLaS over `labels` labels per step; cosines instead of inner products if `unit`."""

    S: Csr  # (labels, labels) symmetric
    Y: Csr
    weight: float
    labels: int
    unit: bool
    seed: int
    name: str = "glas"

    def load(self, batch: Batch, device: torch.device) -> Message:
        rng, n = step_generator(self.seed, batch), self.S.shape[0]
        rows = batch.rows[batch.rows < self.Y.shape[0]]  # a recipe may append rows
        positive = rng.permutation(np.unique(self.Y[rows].indices))[: self.labels]
        others = rng.permutation(n) if n < 8 * self.labels else rng.integers(0, n, 4 * self.labels)
        ids = np.concatenate([positive, others]).astype(np.int64)
        ids = ids[np.sort(np.unique(ids, return_index=True)[1])][: min(self.labels, n)]
        shares = self.S[ids][:, ids].toarray().astype(np.float32)
        return Message({"ids": send(ids, device), "shares": send(shares, device)}, len(ids))

    def loss(self, vectors: Tensor, message: Message) -> Tensor:
        w = torch.nn.functional.normalize(vectors, dim=1) if self.unit else vectors
        return self.weight * (w @ w.T - message["shares"]).square().mean()
