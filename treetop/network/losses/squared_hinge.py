"""Squared hinge: t max(0, 1 - z)² + (1 - t) max(0, 1 + z)², independent for each label (XR-Transformer).

When to use it: with vectors bootstrapped by a linear solver, which minimises the same loss.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from treetop.network.losses.pairs import Pairs, each_label
from treetop.network.losses.settings import LossConfig


def loss(pairs: Pairs, config: LossConfig) -> Tensor:
    """(rows,)"""
    z, t = pairs.logits.float(), pairs.target.float()
    values = t * F.relu(1.0 - z).square() + (1.0 - t) * F.relu(1.0 + z).square()
    return each_label(pairs, values, config.bce_reduction).to(pairs.logits.dtype)
