"""SiameseXML's likelihood (ICML 2021): a pair matches with probability c exp(d (cosine - 1)).

When to use it: as published, for cosines of unit vectors and the hardest negatives of a text.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from treetop.network.losses.pairs import Pairs
from treetop.network.losses.settings import LossConfig


def loss(pairs: Pairs, config: LossConfig) -> Tensor:
    """(rows,)"""
    c, d = config.kprob_c, config.sharpness
    positives = pairs.mean_over_positives(d * (1.0 - pairs.logits) - math.log(c))
    hard = pairs.hardest(config.hard_negatives)
    values = -torch.log1p(-c * torch.exp(d * (hard.clamp_max(1.0) - 1.0)))  # -inf: exp is 0, and so is the loss
    values = torch.where(values > config.min_loss, values, 0.0)
    return positives + values.sum(1) / torch.isfinite(hard).sum(1).clamp_min(1)
