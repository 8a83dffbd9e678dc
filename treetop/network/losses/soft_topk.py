"""Soft top-k (DEXML, ICLR 2024): -log of each positive's share of the top k.

The share is σ(a (z + t)) with the threshold t at which all shares add up to k. One Newton step with a graph behind a
bisection without one gives t its exact derivative. When to use it: where only the first k answers are looked at.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from treetop.network.losses.pairs import Pairs
from treetop.network.losses.settings import LossConfig

BISECTIONS = 40


def loss(pairs: Pairs, config: LossConfig) -> Tensor:
    """(rows,)"""
    counted, a, s = pairs.counted, config.sharpness, pairs.logits
    places = (0.5 * counted.sum(1)).clamp_max(float(config.k)).to(s.dtype)
    with torch.no_grad():
        low, high = -s.amax(1) - 30.0 / a, -s.amin(1) + 30.0 / a
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            few = torch.where(counted, torch.sigmoid(a * (s + middle[:, None])), 0.0).sum(1) < places
            low, high = torch.where(few, middle, low), torch.where(few, high, middle)
        t = 0.5 * (low + high)
    share = torch.where(counted, torch.sigmoid(a * (s + t[:, None])), 0.0)
    slope = (a * share * (1.0 - share)).sum(1).detach().clamp_min(1e-12)
    t = t - (share.sum(1) - places) / slope
    return pairs.mean_over_positives(-F.logsigmoid(a * (s + t[:, None])))
