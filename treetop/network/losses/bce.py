"""Binary cross-entropy, independent for each label: -t log σ(z) - (1 - t) log(1 - σ(z)).

When to use it: the default of classifiers; logits are log odds, so scores are probabilities. Soft targets t mix both
sides. Twin over all labels without kept logits: `kernels/gpu/full_bce.py`.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from treetop.network.losses.pairs import Pairs, each_label
from treetop.network.losses.settings import LossConfig


def loss(pairs: Pairs, config: LossConfig) -> Tensor:
    """(rows,)"""
    values = F.binary_cross_entropy_with_logits(pairs.logits.float(), pairs.target.float(), reduction="none")
    return each_label(pairs, values, config.bce_reduction).to(pairs.logits.dtype)
