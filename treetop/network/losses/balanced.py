"""Balanced softmax: all positives of a row share one unit of mass in the denominator.

When to use it: where rows differ much in how many labels they have; between `supcon` and `decoupled`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from treetop.network.losses.pairs import Pairs, log_sum_exp
from treetop.network.losses.settings import LossConfig


def loss(pairs: Pairs, config: LossConfig) -> Tensor:
    """(rows,)"""
    positive = pairs.target > 0
    share = torch.log(positive.sum(1, keepdim=True).clamp_min(1).to(pairs.logits.dtype))
    total = log_sum_exp(torch.where(positive, pairs.logits - share, pairs.logits), pairs.counted)
    return pairs.mean_over_positives(total[:, None] - pairs.logits)
