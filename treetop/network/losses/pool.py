"""The loss of a whole pool: which positives of a row count, in one direction or both.

Pairs that are neither positive nor negative are left out by -inf, never by a large number, since the products of a
classifier have no bounds. Numbers of low precision are widened first.
"""

from __future__ import annotations

import torch
from torch import Tensor

from treetop.network.losses import bce
from treetop.network.losses.pairs import Pairs
from treetop.network.losses.settings import LossConfig, loss_of


def pool_loss(logits: Tensor, target: Tensor, config: LossConfig, ignored: Tensor | None = None) -> Tensor:
    """The mean over rows (and columns, where symmetric) that have a positive."""
    logits = logits if logits.dtype == torch.float64 else logits.float()
    pairs = Pairs(logits, target, ignored)
    value = _direction(pairs, config)
    if config.symmetric:
        back = _direction(Pairs(logits.T, target.T, None if ignored is None else ignored.T), config)
        value = (1.0 - config.symmetric_weight) * value + config.symmetric_weight * back
    if config.bce_weight > 0:  # of the queries, symmetric or not
        value = value + config.bce_weight * _mean_row(bce.loss(pairs, config), target)
    return value


def _direction(pairs: Pairs, config: LossConfig) -> Tensor:
    if config.positive_set == "one":
        chosen = drawn(pairs.target)
        others = (pairs.target > 0) & (chosen <= 0)
        pairs = Pairs(pairs.logits, chosen, others if pairs.ignored is None else pairs.ignored | others)
    return _mean_row(loss_of(config.kind)(pairs, config), pairs.target)


def drawn(target: Tensor) -> Tensor:
    """One positive of each row; the others are 0."""
    best = torch.where(target > 0, torch.rand_like(target), -1.0).argmax(1, keepdim=True)
    return torch.zeros_like(target).scatter(1, best, 1.0) * target


def _mean_row(values: Tensor, target: Tensor) -> Tensor:
    """The mean over rows that have a positive; the loss of the others is meaningless."""
    rows = (target > 0).any(1)
    return torch.where(rows, values, 0.0).sum() / rows.sum().clamp_min(1)
