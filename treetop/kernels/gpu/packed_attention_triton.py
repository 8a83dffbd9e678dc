"""The Triton programs behind `packed_attention.py`: one head of one sequence each, 32 queries at a time."""
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: ignore-errors

import triton
import triton.language as tl

ROWS = tl.constexpr(32)  # queries of one step


@triton.jit
def _kept(seed, rows, TILE: tl.constexpr, dropout):
    """Dropout mask: the same draw for the same (token, head, other token) in both passes."""
    offsets = (rows[:, None] * TILE + tl.arange(0, TILE)[None, :]).to(tl.int32)
    return tl.rand(tl.load(seed), offsets, 6) >= dropout


@triton.jit
def forward(
    q, k, v, out, lse, starts, seed, scale, dropout,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, ABOVE: tl.constexpr, TILE: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """Attention and each row's log-sum-exp, which the backward pass needs."""
    begin = tl.load(starts + tl.program_id(0))
    length = tl.load(starts + tl.program_id(0) + 1) - begin
    if (length <= ABOVE) | (length > TILE):
        return
    other = tl.arange(0, TILE)
    wide = tl.arange(0, WIDTH)[None, :]
    at = ((begin + other).to(tl.int64) * HEADS + tl.program_id(1))[:, None] * WIDTH + wide
    there = (other < length)[:, None]
    K = tl.load(k + at, mask=there, other=0.0)
    V = tl.load(v + at, mask=there, other=0.0)
    for first in range(0, TILE, ROWS):
        if first < length:
            place = first + tl.arange(0, ROWS)
            rows = (begin + place).to(tl.int64) * HEADS + tl.program_id(1)
            mine = rows[:, None] * WIDTH + wide
            real = (place < length)[:, None]
            Q = tl.load(q + mine, mask=real, other=0.0)
            S = tl.dot(Q, tl.trans(K)) * scale
            S = tl.where((other < length)[None, :], S, float("-inf"))
            top = tl.max(S, 1)
            P = tl.exp(S - top[:, None])
            total = tl.sum(P, 1)
            tl.store(lse + rows, top + tl.log(total), mask=place < length)
            P = P / total[:, None]
            if DROP:
                P = tl.where(_kept(seed, rows, TILE, dropout), P / (1.0 - dropout), 0.0)
            tl.store(out + mine, tl.dot(P.to(V.dtype), V).to(V.dtype), mask=real)


@triton.jit
def backward(
    grad, q, k, v, out, lse, grad_q, grad_k, grad_v, starts, seed, scale, dropout,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, ABOVE: tl.constexpr, TILE: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """Gradients over query, key and value; attention weights are recomputed."""
    begin = tl.load(starts + tl.program_id(0))
    length = tl.load(starts + tl.program_id(0) + 1) - begin
    if (length <= ABOVE) | (length > TILE):
        return
    other = tl.arange(0, TILE)
    wide = tl.arange(0, WIDTH)[None, :]
    at = ((begin + other).to(tl.int64) * HEADS + tl.program_id(1))[:, None] * WIDTH + wide
    there = (other < length)[:, None]
    K = tl.load(k + at, mask=there, other=0.0)
    V = tl.load(v + at, mask=there, other=0.0)
    slope_k = tl.zeros((TILE, WIDTH), tl.float32)
    slope_v = tl.zeros((TILE, WIDTH), tl.float32)
    for first in range(0, TILE, ROWS):
        if first < length:
            place = first + tl.arange(0, ROWS)
            rows = (begin + place).to(tl.int64) * HEADS + tl.program_id(1)
            mine = rows[:, None] * WIDTH + wide
            real = (place < length)[:, None]
            Q = tl.load(q + mine, mask=real, other=0.0)
            G = tl.load(grad + mine, mask=real, other=0.0)
            O = tl.load(out + mine, mask=real, other=0.0)  # noqa: E741
            L = tl.load(lse + rows, mask=place < length, other=0.0)
            S = tl.dot(Q, tl.trans(K)) * scale
            P = tl.where(real & (other < length)[None, :], tl.exp(S - L[:, None]), 0.0)
            D = tl.dot(G, tl.trans(V))  # slope over the weights after dropout
            kept = P
            if DROP:
                coin = _kept(seed, rows, TILE, dropout)
                kept = tl.where(coin, P / (1.0 - dropout), 0.0)
                D = tl.where(coin, D / (1.0 - dropout), 0.0)
            slope_v += tl.dot(tl.trans(kept.to(V.dtype)), G)
            inner = tl.sum(G.to(tl.float32) * O.to(tl.float32), 1)
            slope = (P * (D - inner[:, None]) * scale).to(V.dtype)
            tl.store(grad_q + mine, tl.dot(slope, K).to(V.dtype), mask=real)
            slope_k += tl.dot(tl.trans(slope), Q)
    tl.store(grad_k + at, slope_k.to(V.dtype), mask=there)
    tl.store(grad_v + at, slope_v.to(V.dtype), mask=there)
