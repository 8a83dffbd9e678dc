"""Layer norm and linear layers whose backward pass is fast for many short rows (tokens of a few hundred dimensions).

torch's own kernels spend a third of a small encoder's step on the gradients of norms and biases, which are sums over
tens of thousands of rows. Here each program sums a stretch of rows and a short second sum adds the stretches up.
Modules are exchanged one for one and share their weights, whatever the encoder's architecture.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from treetop.kernels.gpu import triton_runs

PROGRAMS = 528  # stretches of rows: four for each processor of a large GPU


def exchange(root: nn.Module) -> None:
    """Put the fast layers in place of torch's inside `root`; meant for training on a GPU."""
    for parent in list(root.modules()):
        for name, child in parent.named_children():
            if type(child) is nn.LayerNorm and len(child.normalized_shape) == 1 and child.bias is not None:
                setattr(parent, name, Norm(child))
            elif type(child) is nn.Linear and child.bias is not None:
                setattr(parent, name, Linear(child))


class Norm(nn.Module):
    """`nn.LayerNorm` over the last dimension."""

    def __init__(self, like: nn.LayerNorm) -> None:
        super().__init__()
        self.weight, self.bias, self.eps = like.weight, like.bias, like.eps

    def forward(self, x: Tensor) -> Tensor:
        if not triton_runs.here(x):
            return F.layer_norm(x, x.shape[-1:], self.weight, self.bias, self.eps)
        return LayerNorm.apply(x, self.weight, self.bias, self.eps)  # type: ignore[no-untyped-call]


class Linear(nn.Module):
    """`nn.Linear` with a bias."""

    def __init__(self, like: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = like.weight, like.bias
        self.in_features, self.out_features = like.in_features, like.out_features

    def forward(self, x: Tensor) -> Tensor:
        if not (triton_runs.here(x) and torch.is_grad_enabled()):
            return F.linear(x, self.weight, self.bias)
        return Affine.apply(x, self.weight, self.bias)  # type: ignore[no-untyped-call]


class LayerNorm(torch.autograd.Function):
    """(x - mean) / deviation * weight + bias, row by row."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        from treetop.kernels.gpu import one_pass_layers_triton as kernels

        rows = x.contiguous().view(-1, x.shape[-1])
        out = torch.empty_like(rows)
        mean, scale = (torch.empty(len(rows), device=x.device, dtype=torch.float32) for _ in range(2))
        n, width = rows.shape
        kernels.norm_forward[(-(-n // 4),)](
            rows,
            weight,
            bias,
            out,
            mean,
            scale,
            n,
            eps,
            WIDTH=width,
            BLOCK=triton_runs.power(width),
            ROWS=4,
            num_warps=4,
        )
        ctx.save_for_backward(rows, weight, mean, scale)
        return out.view(x.shape)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        from treetop.kernels.gpu import one_pass_layers_triton as kernels

        rows, weight, mean, scale = ctx.saved_tensors
        grad = grads[0].contiguous().view(rows.shape)
        n, width = rows.shape
        grad_rows = torch.empty_like(rows)
        parts = torch.empty(2, PROGRAMS, width, device=rows.device, dtype=torch.float32)
        kernels.norm_backward[(PROGRAMS,)](
            grad, rows, weight, mean, scale, grad_rows, parts[0], parts[1], n,
            WIDTH=width, BLOCK=triton_runs.power(width), ROWS=4, num_warps=4,
        )  # fmt: skip
        sums = parts.sum(1).to(weight.dtype)
        return grad_rows.view(grads[0].shape), sums[0], sums[1], None


class Affine(torch.autograd.Function):
    """x Wᵀ + b."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        rows = grads[0].reshape(-1, weight.shape[0])
        grad_weight = rows.T @ x.reshape(-1, weight.shape[1])
        return (rows @ weight).view(x.shape), grad_weight, column_sums(rows).to(weight.dtype)


def column_sums(rows: Tensor) -> Tensor:
    """(columns,) float32 sums of a tall matrix."""
    if not triton_runs.here(rows):
        return rows.sum(0, dtype=torch.float32)
    from treetop.kernels.gpu import one_pass_layers_triton as kernels

    rows = rows.contiguous()
    n, width = rows.shape
    blocks = -(-width // 128)
    programs = max(1, PROGRAMS // blocks)
    parts = torch.empty(programs, width, device=rows.device, dtype=torch.float32)
    kernels.sum_columns[(programs, blocks)](rows, parts, n, WIDTH=width, ROWS=32, num_warps=4)
    return parts.sum(0)
