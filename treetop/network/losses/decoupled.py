"""Decoupled softmax (DEXML, ICLR 2024): each positive against the negatives alone, log(1 + Σ exp(z⁻) / exp(z⁺)).

When to use it: the default of dual encoders; positives do not compete with each other.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from treetop.network.losses.pairs import Pairs, log_sum_exp
from treetop.network.losses.settings import LossConfig


def loss(pairs: Pairs, config: LossConfig) -> Tensor:
    """(rows,) loss of each row."""
    return pairs.mean_over_positives(F.softplus(log_sum_exp(pairs.logits, pairs.negative)[:, None] - pairs.logits))
