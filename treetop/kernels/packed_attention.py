"""Attention inside sequences that lie end to end without padding, shortest first.

Short texts waste most of a flash-attention tile (128 x 128 for a text of 17 tokens). Here one program holds one head
of one sequence in a tile of 16, 32, 64 or 128, so work follows the real length; sorting by length makes the classes
contiguous. The torch twin takes runs of equal length through torch's own attention; it is also the CPU path.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

CLASSES = (16, 32, 64, 128)  # longest sequence of each class of programs


def class_bounds(lengths: NDArray[np.int64]) -> tuple[Tensor, int]:
    """First sequence behind each class, for ascending `lengths`, and the longest if no class holds it (else 0).

    The bounds are a host tensor and the length is rounded up, so that compiled code need not be made anew.
    """
    longest = int(lengths[-1]) if len(lengths) else 0
    rounded = -(-longest // CLASSES[-1]) * CLASSES[-1] if longest > CLASSES[-1] else 0
    return torch.from_numpy(np.searchsorted(lengths, CLASSES, side="right").astype(np.int64)), rounded


def attend(
    query: Tensor,  # (tokens, heads, width)
    key: Tensor,
    value: Tensor,
    starts: Tensor,  # (sequences + 1,) int32
    bounds: Tensor,  # of `class_bounds`
    longest: int = 0,  # of `class_bounds`
    *,
    scale: float,
    dropout: float = 0.0,
) -> Tensor:
    """(tokens, heads, width) attention of every token to its own sequence."""
    if not query.is_cuda:
        return attend_plain(query, key, value, starts, scale=scale, dropout=dropout)
    width = query.shape[2]
    if longest or width not in (16, 32, 64, 128) or query.dtype == torch.float32:
        longest = longest or CLASSES[-1]
        made: Tensor = torch.ops.aten._flash_attention_forward(
            query, key, value, starts, starts, longest, longest, dropout, False, False, scale=scale
        )[0]
        return made
    seed = torch.randint(0, 2**31 - 1, (1,), device=query.device, dtype=torch.int32) if dropout else starts[:1]
    made = torch.ops.treetop.packed_attention(query, key, value, starts, bounds, seed, scale, dropout)[0]
    return made


def attend_plain(
    query: Tensor, key: Tensor, value: Tensor, starts: Tensor, *, scale: float, dropout: float = 0.0
) -> Tensor:
    """The twin in plain torch: one call for every run of equally long sequences."""
    ends = starts.tolist()
    lengths = np.diff(ends)
    cuts = [0, *(np.flatnonzero(np.diff(lengths)) + 1).tolist(), len(lengths)]
    parts = []
    for a, b in pairwise(cuts):
        if a == b:
            continue
        n = int(lengths[a])
        span = slice(ends[a], ends[b])
        q, k, v = (x[span].reshape(b - a, n, *x.shape[1:]).transpose(1, 2) for x in (query, key, value))
        out = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, scale=scale)
        parts.append(out.transpose(1, 2).flatten(0, 1))
    return torch.cat(parts) if parts else torch.zeros_like(query)


# --- the fused one --------------------------------------------------------------------------------------------------


@torch.library.custom_op("treetop::packed_attention", mutates_args=())
def _forward_op(
    q: Tensor, k: Tensor, v: Tensor, starts: Tensor, bounds: Tensor, seed: Tensor, scale: float, dropout: float
) -> tuple[Tensor, Tensor]:
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    out = torch.empty_like(q)
    lse = torch.empty(q.shape[:2], device=q.device, dtype=torch.float32)
    _launch("forward", bounds, [q, k, v, out, lse, starts], seed, scale, dropout)
    return out, lse


@_forward_op.register_fake
def _(q, k, v, starts, bounds, seed, scale, dropout):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    return torch.empty(q.shape, device=q.device, dtype=q.dtype), q.new_empty(q.shape[:2], dtype=torch.float32)


@torch.library.custom_op("treetop::packed_attention_backward", mutates_args=())
def _backward_op(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, starts: Tensor, bounds: Tensor,
    seed: Tensor, scale: float, dropout: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    grad, q, k, v = grad.contiguous(), q.contiguous(), k.contiguous(), v.contiguous()
    made = [torch.empty_like(q) for _ in range(3)]
    _launch("backward", bounds, [grad, q, k, v, out, lse, *made, starts], seed, scale, dropout)
    return made[0], made[1], made[2]


@_backward_op.register_fake
def _(grad, q, k, v, out, lse, starts, bounds, seed, scale, dropout):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    return tuple(torch.empty(q.shape, device=q.device, dtype=q.dtype) for _ in range(3))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, starts, bounds, seed, scale, dropout = inputs
    ctx.save_for_backward(q, k, v, *output, starts, bounds, seed)
    ctx.scale, ctx.dropout = scale, dropout


def _backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    q, k, v, out, lse, starts, bounds, seed = ctx.saved_tensors
    made = torch.ops.treetop.packed_attention_backward(
        grad, q, k, v, out, lse, starts, bounds, seed, ctx.scale, ctx.dropout
    )
    return (*made, None, None, None, None, None)


_forward_op.register_autograd(_backward, setup_context=_keep)


def _launch(which: str, bounds: Tensor, tensors: Sequence[Tensor], seed: Tensor, scale: float, dropout: float) -> None:
    """One launch per class of lengths that occurs."""
    from treetop.kernels import packed_attention_triton as fused

    kernel = getattr(fused, which)
    _, heads, width = tensors[0].shape
    first = 0
    for tile, stop in zip(CLASSES, bounds.tolist(), strict=True):
        if stop > first:
            kernel[(stop - first, heads)](
                *tensors, seed, first, scale, dropout,
                HEADS=heads, WIDTH=width, TILE=tile, DROP=dropout > 0.0, num_warps=1 if tile <= 32 else 4,
            )  # fmt: skip
        first = max(first, stop)
