"""Losses over a rectangle of candidates: one row per document, padding masked, soft targets and weights everywhere.

Each returns one value per row, so that a mean over a big batch is the sum of the shares of its micro-batches.
`reduce="mean"` divides by the candidates of the row, `"sum"` does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

Reduce = Literal["mean", "sum"]
Loss = Callable[..., Tensor]


def _rows(values: Tensor, weight: Tensor | None, mask: Tensor | None, reduce: Reduce) -> Tensor:
    if weight is not None:
        values = values * weight
    if mask is not None:
        values = values.masked_fill(~mask, 0.0)
    total = values.sum(1)
    if reduce == "sum":
        return total
    count = values.shape[1] if mask is None else mask.sum(1).clamp_min(1)
    return total / count


def bce(
    logits: Tensor,  # (rows, candidates)
    targets: Tensor,  # same shape, in [0, 1]
    *,
    mask: Tensor | None = None,  # True where a candidate stands
    weight: Tensor | None = None,
    reduce: Reduce = "mean",
) -> Tensor:
    """Binary cross-entropy per row; targets between 0 and 1 are probabilities to match."""
    values = F.binary_cross_entropy_with_logits(logits.float(), targets.float(), reduction="none")
    return _rows(values, weight, mask, reduce)


def squared_hinge(
    logits: Tensor,
    targets: Tensor,
    *,
    mask: Tensor | None = None,
    weight: Tensor | None = None,
    reduce: Reduce = "mean",
) -> Tensor:
    """max(0, 1 - s z)² per row with s = ±1; a soft target t mixes both sides, t and 1 - t."""
    z, t = logits.float(), targets.float()
    values = t * F.relu(1.0 - z).square() + (1.0 - t) * F.relu(1.0 + z).square()
    return _rows(values, weight, mask, reduce)


LOSSES: dict[str, Loss] = {"bce": bce, "squared_hinge": squared_hinge}


def relevance_weights(relevance: Tensor, targets: Tensor) -> Tensor:
    """Weights for a rectangle: the relevance where there is one, 1 for negatives (cost-sensitive learning)."""
    return torch.where(targets > 0, relevance, torch.ones_like(relevance))
