"""Attention within packed sequences, end to end without padding.

Short texts waste most of a flash-attention tile (128 x 128 for a text of 17 tokens). Here one program holds one head
of one sequence, its keys and values in a tile of 32 or 128; the programs of a tile leave sequences of other lengths
alone, so that nothing about lengths need be known to the host. The torch twin takes runs of equal length through
torch's own attention; it is also the CPU path.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from treetop.kernels.gpu import triton_runs

TILES = ((0, 32), (32, 128))  # (longer than, up to) of the sequences a tile takes
LONGEST = TILES[-1][1]


def beyond_tiles(longest: int) -> int:
    """0 when tiles hold every sequence, else the longest rounded up, so that few values occur."""
    return -(-longest // LONGEST) * LONGEST if longest > LONGEST else 0


def attend(
    query: Tensor,  # (tokens, heads, width)
    key: Tensor,
    value: Tensor,
    starts: Tensor,  # (sequences + 1,) int32; a sequence may be empty
    beyond: int = 0,  # of `beyond_tiles`
    *,
    scale: float,
    dropout: float = 0.0,
) -> Tensor:
    """(tokens, heads, width) attention of every token to its own sequence."""
    fits = not beyond and query.shape[2] in (16, 32, 64, 128)
    flash = query.is_cuda and query.dtype in (torch.bfloat16, torch.float16)  # it knows no float32
    if not flash and not (fits and triton_runs.here(query)):
        return attend_plain(query, key, value, starts, scale=scale, dropout=dropout)
    if not fits:
        longest = beyond or LONGEST
        return torch.ops.aten._flash_attention_forward(
            query, key, value, starts, starts, longest, longest, dropout, False, False, scale=scale
        )[0]
    seed = torch.randint(0, 2**31 - 1, (1,), device=query.device, dtype=torch.int32) if dropout else starts[:1]
    attended = torch.ops.treetop.packed_attention(query, key, value, starts, seed, scale, dropout)[0]
    return attended


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
    q: Tensor, k: Tensor, v: Tensor, starts: Tensor, seed: Tensor, scale: float, dropout: float
) -> tuple[Tensor, Tensor]:
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    out = torch.empty_like(q)
    lse = torch.empty(q.shape[:2], device=q.device, dtype=torch.float32)
    _launch("forward", [q, k, v, out, lse, starts], seed, scale, dropout)
    return out, lse


@_forward_op.register_fake
def _(q, k, v, starts, seed, scale, dropout):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    return torch.empty(q.shape, device=q.device, dtype=q.dtype), q.new_empty(q.shape[:2], dtype=torch.float32)


@torch.library.custom_op("treetop::packed_attention_backward", mutates_args=())
def _backward_op(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, starts: Tensor,
    seed: Tensor, scale: float, dropout: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    grad, q, k, v = grad.contiguous(), q.contiguous(), k.contiguous(), v.contiguous()
    made = [torch.empty_like(q) for _ in range(3)]
    _launch("backward", [grad, q, k, v, out, lse, *made, starts], seed, scale, dropout)
    return made[0], made[1], made[2]


@_backward_op.register_fake
def _(grad, q, k, v, out, lse, starts, seed, scale, dropout):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    return tuple(torch.empty(q.shape, device=q.device, dtype=q.dtype) for _ in range(3))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, starts, seed, scale, dropout = inputs
    ctx.save_for_backward(q, k, v, *output, starts, seed)
    ctx.scale, ctx.dropout = scale, dropout


def _backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    q, k, v, out, lse, starts, seed = ctx.saved_tensors
    grads = torch.ops.treetop.packed_attention_backward(grad, q, k, v, out, lse, starts, seed, ctx.scale, ctx.dropout)
    return (*grads, None, None, None, None)


_forward_op.register_autograd(_backward, setup_context=_keep)


def _launch(which: str, tensors: Sequence[Tensor], seed: Tensor, scale: float, dropout: float) -> None:
    """One launch per tile; each takes the sequences of its lengths."""
    from treetop.kernels.gpu import packed_attention_triton as programs

    kernel = getattr(programs, which)
    _, heads, width = tensors[0].shape
    for above, tile in TILES:
        kernel[(len(tensors[-1]) - 1, heads)](
            *tensors, seed, scale, dropout,
            HEADS=heads, WIDTH=width, ABOVE=above, TILE=tile, DROP=dropout > 0.0, num_warps=1 if tile <= 32 else 4,
        )  # fmt: skip
