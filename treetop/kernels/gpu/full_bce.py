"""A classifier over all labels whose logits are never materialised (torch twin; the Triton one has the same signature).

The gradient of BCE over a logit is σ(z) - y, so a block of logits turns into its own gradient in place, gives its
share to the vectors and to the weights, and is dropped. Positives are a few triples; nothing waits for the device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from treetop.kernels.runtime import threads

Loss = Literal["bce", "squared_hinge"]
CPU_BLOCK = 2048  # labels a thread takes at a time
Update = Callable[[int, int, Tensor, Tensor | None], None]  # start, stop, gradient of weights, of biases


@dataclass(frozen=True, eq=False)
class Positives:
    """(row, column, target) triples; `strength` weights a triple's loss (0: neither positive nor negative)."""

    row: Tensor
    column: Tensor
    target: Tensor
    strength: Tensor | None = None


def full_loss(
    h: Tensor,  # (rows, width) in the type to compute in
    weight: Tensor,  # (labels, width)
    bias: Tensor | None,  # (labels,)
    positives: Positives,
    *,
    scale: float,
    block: int,
    update: Update,
    loss: Loss = "bce",
    value: bool = True,
) -> tuple[Tensor, Tensor]:
    """(loss, gradient over h), both times `scale`; `update` gets the weight gradients block by block.

    Columns outside the table are left out (rows of other processes). With `value=False` the loss costs nothing and is
    0, or NaN if the gradient is not finite.
    """
    scaled = h * scale

    @torch.no_grad()  # each thread has a grad mode of its own
    def one(start: int, stop: int) -> tuple[Tensor, Tensor]:
        w = weight[start:stop].to(h.dtype)
        z = F.linear(h, w, None if bias is None else bias[start:stop].to(h.dtype))
        inside = (positives.column >= start) & (positives.column < stop)
        place = positives.row * (stop - start) + (positives.column - start).clamp(0, stop - start - 1)
        at = z.view(-1)[place].float()
        total = _negative(z, loss) + _correction(at, positives, inside, loss) if value else None
        slope = _slope(z, loss)  # in place: z is gone
        slope.view(-1).index_add_(0, place, _shift(at, positives, inside, loss).to(slope.dtype))
        part = (slope @ w).float()
        update(start, stop, slope.T @ scaled, None if bias is None else slope.sum(0, dtype=torch.float32) * scale)
        return part.sum() * 0.0 if total is None else total, part

    # On the CPU blocks run side by side and are added up in order, so bits do not depend on the threads.
    ranges = threads.blocks(len(weight), block if h.is_cuda else min(block, CPU_BLOCK))
    total, grad_h = torch.zeros((), device=h.device), torch.zeros(h.shape, device=h.device)
    for value_, part in map(lambda span: one(*span), ranges) if h.is_cuda else threads.stream(one, ranges):
        total += value_
        grad_h += part
    return total * scale, grad_h * scale


def _negative(z: Tensor, loss: Loss) -> Tensor:
    """The loss as if every label were negative."""
    if loss == "bce":
        return F.softplus(z).sum(dtype=torch.float32)
    return F.relu(1.0 + z).square().sum(dtype=torch.float32)


def _correction(z: Tensor, positives: Positives, inside: Tensor, loss: Loss) -> Tensor:
    t, k = positives.target, positives.strength
    if loss == "bce":
        negative, true = F.softplus(z), F.softplus(z) - t * z
    else:
        negative = F.relu(1.0 + z).square()
        true = t * F.relu(1.0 - z).square() + (1.0 - t) * negative
    return torch.where(inside, (true if k is None else k * true) - negative, 0.0).sum()


def _slope(z: Tensor, loss: Loss) -> Tensor:
    return z.sigmoid_() if loss == "bce" else z.add_(1.0).relu_().mul_(2.0)


def _shift(z: Tensor, positives: Positives, inside: Tensor, loss: Loss) -> Tensor:
    """Difference between a positive's slope and that of a negative."""
    t, k = positives.target, positives.strength
    if loss == "bce" and k is None:
        return torch.where(inside, -t, 0.0)
    if loss == "bce":
        negative, true = torch.sigmoid(z), torch.sigmoid(z) - t
    else:
        negative = 2.0 * F.relu(1.0 + z)
        true = -2.0 * t * F.relu(1.0 - z) + (1.0 - t) * negative
    return torch.where(inside, (true if k is None else k * true) - negative, 0.0)
