"""A classifier over all labels in bfloat16, updated in the same pass that computes its gradient.

A step of size rate * gradient is mostly smaller than the resolution of bfloat16, so weights are rounded up or down at
random such that the mean is exact. The Triton programs never write the gradient of the weights; the twin in plain torch
does the same a block at a time. Random bits depend on seed, step, label and column, not on chunks or programs.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from treetop.kernels.gpu import triton_runs
from treetop.kernels.gpu.full_bce import Positives, full_loss

CHUNK = (
    270336  # labels whose slopes the programs hold at a time: 192 tiles for each of those that stay on 132 processors
)
HELD = CHUNK * 256  # slopes, so fewer labels where there are more rows
BLOCK = 1 << 23  # logits the twin holds at a time
WORD = 0xFFFFFFFF


@dataclass(frozen=True, eq=False)
class LowRows:
    """Rows of the table of label vectors: (n, width) bfloat16 and (n,) float32; `first` is the id of row 0."""

    weight: Tensor
    bias: Tensor
    first: int = 0
    learns_bias: bool = True


@dataclass(frozen=True, eq=False)
class Descent:
    """w <- rounded(w - rate (gradient + decay w)); `draw` is (seed, step) in int32, None rounds to the nearest."""

    rate: Tensor | float
    decay: float = 0.0
    draw: Tensor | None = None


def full_descent(
    h: Tensor,  # (rows, width)
    table: LowRows,
    positives: Positives,
    rule: Descent,
    *,
    scale: float,
    value: bool = True,
) -> tuple[Tensor, Tensor]:
    """(BCE loss, gradient over h), both times `scale`; the table is updated in the same pass.

    Columns outside the table are left out. With `value=False` the loss is 0, or NaN if the gradient is not finite.
    """
    if triton_runs.here(h):
        from treetop.kernels.gpu.full_bce_launch import triton_descent

        return triton_descent(h, table, positives, rule, scale=scale, value=value)
    return plain_descent(h, table, positives, rule, scale=scale, value=value)


def plain_descent(
    h: Tensor, table: LowRows, positives: Positives, rule: Descent, *, scale: float, value: bool = True
) -> tuple[Tensor, Tensor]:
    """The twin: products in h's type, the step in float32."""

    def update(start: int, stop: int, weight: Tensor, bias: Tensor | None) -> None:
        step_rows(table, (start, stop), weight.float(), bias, rule)

    block = max(64, BLOCK // max(1, len(h)) // 64 * 64)
    return full_loss(h, table.weight, table.bias, positives, scale=scale, block=block, update=update, value=value)


def step_rows(table: LowRows, span: tuple[int, int], weight: Tensor, bias: Tensor | None, rule: Descent) -> None:
    """One step of rows `span` with the gradients of their weights and biases."""
    start, stop = span
    held = table.weight[start:stop].float()
    held -= rule.rate * (weight + rule.decay * held)
    bits = None if rule.draw is None else random_bits(rule.draw, table.first + start, held)
    table.weight[start:stop] = rounded(held, bits)
    if table.learns_bias and bias is not None:
        table.bias[start:stop] -= rule.rate * bias


def rounded(x: Tensor, bits: Tensor | None) -> Tensor:
    """float32 as bfloat16: to the nearest, or stochastically by 16 random bits, so that the mean is x."""
    if bits is None:
        return x.to(torch.bfloat16)
    up = (x.view(torch.int32) + bits) & -65536
    # The carry of a NaN could make a number of it.
    return torch.where(x == x, up.view(torch.float32), x).to(torch.bfloat16)


def random_bits(draw: Tensor, first: int, like: Tensor) -> Tensor:
    """(rows, columns) 16 random bits each, in int32: the row's xor the column's, so any two places are independent."""
    n, width = like.shape
    seed, step = (draw.to(like.device).long() & WORD).unbind()
    base = _mixed(_mixed(step ^ 0x5BD1E995) ^ seed)
    rows = _mixed((torch.arange(first, first + n, device=like.device) & WORD) ^ base)
    columns = _mixed(torch.arange(width, device=like.device) ^ _mixed(base ^ 0x1B873593))
    return ((rows[:, None] ^ columns[None, :]) & 0xFFFF).to(torch.int32)


def _mixed(x: Tensor) -> Tensor:
    """32 bits in, 32 bits out, every bit depending on every other; in int64, whose low half wraps as it should."""
    x = x ^ (x >> 16)
    x = (x * 0x7FEB352D) & WORD
    x = x ^ (x >> 15)
    x = (x * 0x846CA68B) & WORD
    return x ^ (x >> 16)
