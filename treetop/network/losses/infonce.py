"""InfoNCE (van den Oord et al. 2018): -log of the positives' share among them and the negatives.

When to use it: with one positive per row (`positive_set: one`), as DPR and ANCE do.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from treetop.network.losses.pairs import Pairs, log_sum_exp
from treetop.network.losses.settings import LossConfig


def loss(pairs: Pairs, config: LossConfig) -> Tensor:
    """(rows,)"""
    positive = pairs.target > 0
    own = torch.where(positive.any(1), log_sum_exp(pairs.logits, positive), 0.0)
    return F.softplus(log_sum_exp(pairs.logits, pairs.negative) - own)
