"""Logits of (row, candidate) pairs with their targets, and masked sums over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Reduce = Literal["mean", "sum"]


@dataclass(frozen=True, eq=False)
class Pairs:
    """One row per document (or label, in the other direction), one column per candidate."""

    logits: Tensor  # (rows, candidates)
    target: Tensor  # (rows, candidates) in [0, 1]; 0 is a negative
    ignored: Tensor | None = None  # True: padding, or a pair that is neither positive nor negative
    weight: Tensor | None = None  # relevance of positives

    @property
    def counted(self) -> Tensor:
        """True where a pair is positive or negative."""
        if self.ignored is None:
            return torch.ones_like(self.logits, dtype=torch.bool)
        return ~self.ignored

    @property
    def negative(self) -> Tensor:
        mask = self.target <= 0
        return mask if self.ignored is None else mask & ~self.ignored

    def hardest(self, count: int) -> Tensor:
        """(rows, count) the largest logits of negatives, best first; -inf where a row has fewer."""
        logits = self.logits.masked_fill(~self.negative, float("-inf"))
        return torch.topk(logits, min(count, logits.shape[1]), dim=1).values

    def mean_over_positives(self, values: Tensor) -> Tensor:
        """(rows,) means weighted by the targets; 0 where a row has no positive."""
        weight = self.target.to(values.dtype)
        total = torch.where(weight > 0, values * weight, 0.0).sum(1)
        return total / weight.sum(1).clamp_min(torch.finfo(values.dtype).tiny)


def each_label(pairs: Pairs, values: Tensor, reduce: Reduce) -> Tensor:
    """(rows,) values of single pairs, weighted, added up or averaged over the candidates that count."""
    if pairs.weight is not None:
        values = values * pairs.weight
    if pairs.ignored is not None:
        values = values.masked_fill(pairs.ignored, 0.0)
    total = values.sum(1)
    if reduce == "sum":
        return total
    count = values.shape[1] if pairs.ignored is None else (~pairs.ignored).sum(1).clamp_min(1)
    return total / count


def log_sum_exp(logits: Tensor, kept: Tensor) -> Tensor:
    """(rows,) over the kept candidates; -inf where there are none, with a gradient of 0 and not NaN."""
    any_kept = kept.any(1, keepdim=True)
    masked = torch.where(any_kept, logits.masked_fill(~kept, float("-inf")), 0.0)
    return torch.where(any_kept[:, 0], torch.logsumexp(masked, 1), float("-inf"))


def relevance_weights(relevance: Tensor, target: Tensor) -> Tensor:
    """The relevance where there is a positive, 1 for negatives (cost-sensitive learning)."""
    return torch.where(target > 0, relevance, torch.ones_like(relevance))
