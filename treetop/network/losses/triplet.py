"""Triplet loss (NGAME, WSDM 2023): max(0, z⁻ - z⁺ + margin) over the hardest negatives, harder ones weighted more.

When to use it: as published for NGAME; where texts lack labels by mistake, softmax losses are safer.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from treetop.network.losses.pairs import Pairs
from treetop.network.losses.settings import LossConfig


def loss(pairs: Pairs, config: LossConfig) -> Tensor:
    """(rows,)"""
    hard = pairs.hardest(config.hard_negatives)[:, None, :]  # (rows, 1, hardest)
    if config.positive_set == "one":
        positive = torch.where(pairs.target > 0, pairs.logits, 0.0).sum(1, keepdim=True)
        return _violation(hard, positive, config)[:, 0]
    return pairs.mean_over_positives(_violation(hard, pairs.logits, config))


def _violation(hard: Tensor, positive: Tensor, config: LossConfig) -> Tensor:
    gap = F.relu(hard - positive[:, :, None] + config.margin)  # (rows, positives, hardest)
    if config.temperature == 0:
        return gap.sum(2) / torch.isfinite(hard).sum(2).clamp_min(1)
    first = hard[:, :, :1].detach()
    top = torch.where(torch.isfinite(first), first, 0.0)
    weight = torch.where(gap > 0, torch.exp((hard - top) / config.temperature), 0.0)
    return (gap * weight).sum(2) / weight.sum(2).clamp_min(torch.finfo(weight.dtype).tiny)
