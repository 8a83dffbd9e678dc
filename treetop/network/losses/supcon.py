"""Supervised contrastive loss (Khosla et al. 2020): the mean over positives of -log softmax over all candidates.

When to use it: as a baseline; the positives of a row compete with each other, which `decoupled` avoids.
"""

from __future__ import annotations

from torch import Tensor

from treetop.network.losses.pairs import Pairs, log_sum_exp
from treetop.network.losses.settings import LossConfig


def loss(pairs: Pairs, config: LossConfig) -> Tensor:
    """(rows,)"""
    return pairs.mean_over_positives(log_sum_exp(pairs.logits, pairs.counted)[:, None] - pairs.logits)
