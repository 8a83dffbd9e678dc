"""Losses over a rectangle of candidates: one row per document, padding masked, soft targets and weights everywhere.

Each gives one value per row, so that a mean over a big batch is the sum of the shares of its micro-batches.
`reduce="mean"` divides by the candidates of the row, `"sum"` does not.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from treetop.kernels.full_bce import Loss

Reduce = Literal["mean", "sum"]


def row_loss(
    loss: Loss,
    logits: Tensor,  # (rows, candidates)
    targets: Tensor,  # same shape, in [0, 1]
    *,
    mask: Tensor | None = None,  # True where a candidate stands
    weight: Tensor | None = None,
    reduce: Reduce = "mean",
) -> Tensor:
    """Binary cross-entropy or max(0, 1 - s z)² with s = ±1 per row; a soft target t mixes both sides, t and 1 - t."""
    z, t = logits.float(), targets.float()
    if loss == "bce":
        values = F.binary_cross_entropy_with_logits(z, t, reduction="none")
    else:
        values = t * F.relu(1.0 - z).square() + (1.0 - t) * F.relu(1.0 + z).square()
    if weight is not None:
        values = values * weight
    if mask is not None:
        values = values.masked_fill(~mask, 0.0)
    total = values.sum(1)
    if reduce == "sum":
        return total
    return total / (values.shape[1] if mask is None else mask.sum(1).clamp_min(1))


def relevance_weights(relevance: Tensor, targets: Tensor) -> Tensor:
    """Weights for a rectangle: the relevance where there is one, 1 for negatives (cost-sensitive learning)."""
    return torch.where(targets > 0, relevance, torch.ones_like(relevance))
