"""The Triton programs behind `packed_attention.py`: one head of one sequence each, all of it in one tile."""
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def _tile(starts, first, HEADS: tl.constexpr, WIDTH: tl.constexpr, TILE: tl.constexpr):
    """Offsets into (tokens, heads, width), offsets into (tokens, heads), and which places are real."""
    begin = tl.load(starts + first + tl.program_id(0))
    length = tl.load(starts + first + tl.program_id(0) + 1) - begin
    head = tl.program_id(1)
    place = tl.arange(0, TILE)
    rows = (begin + place).to(tl.int64) * HEADS + head
    return rows[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :], rows, place, length


@triton.jit
def _kept(seed, rows, TILE: tl.constexpr, dropout):
    """The same coin for the same (token, head, other token) in both passes."""
    coin = tl.rand(tl.load(seed), (rows[:, None] * TILE + tl.arange(0, TILE)[None, :]).to(tl.int32))
    return coin >= dropout


@triton.jit
def forward(
    q, k, v, out, lse, starts, seed, first, scale, dropout,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, TILE: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """Attention and the log of each row's sum, which the way back needs."""
    at, rows, place, length = _tile(starts, first, HEADS, WIDTH, TILE)
    real = (place < length)[:, None]
    Q = tl.load(q + at, mask=real, other=0.0)
    K = tl.load(k + at, mask=real, other=0.0)
    V = tl.load(v + at, mask=real, other=0.0)
    S = tl.dot(Q, tl.trans(K)) * scale
    S = tl.where((place < length)[None, :], S, float("-inf"))
    top = tl.max(S, 1)
    P = tl.exp(S - top[:, None])
    total = tl.sum(P, 1)
    P = P / total[:, None]
    tl.store(lse + rows, top + tl.log(total), mask=place < length)
    if DROP:
        P = tl.where(_kept(seed, rows, TILE, dropout), P / (1.0 - dropout), 0.0)
    tl.store(out + at, tl.dot(P.to(V.dtype), V).to(V.dtype), mask=real)


@triton.jit
def backward(
    grad, q, k, v, out, lse, grad_q, grad_k, grad_v, starts, seed, first, scale, dropout,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, TILE: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """Slopes over query, key and value; the weights are made again."""
    at, rows, place, length = _tile(starts, first, HEADS, WIDTH, TILE)
    inside = place < length
    real = inside[:, None]
    Q = tl.load(q + at, mask=real, other=0.0)
    K = tl.load(k + at, mask=real, other=0.0)
    V = tl.load(v + at, mask=real, other=0.0)
    G = tl.load(grad + at, mask=real, other=0.0)
    O = tl.load(out + at, mask=real, other=0.0)  # noqa: E741
    L = tl.load(lse + rows, mask=inside, other=0.0)
    S = tl.dot(Q, tl.trans(K)) * scale
    P = tl.where(real & inside[None, :], tl.exp(S - L[:, None]), 0.0)
    D = tl.dot(G, tl.trans(V))  # slope over the weights after dropout
    kept = P
    if DROP:
        mask = _kept(seed, rows, TILE, dropout)
        kept = tl.where(mask, P / (1.0 - dropout), 0.0)
        D = tl.where(mask, D / (1.0 - dropout), 0.0)
    tl.store(grad_v + at, tl.dot(tl.trans(kept.to(V.dtype)), G).to(V.dtype), mask=real)
    inner = tl.sum(G.to(tl.float32) * O.to(tl.float32), 1)
    slope = (P * (D - inner[:, None]) * scale).to(V.dtype)
    tl.store(grad_q + at, tl.dot(slope, K).to(V.dtype), mask=real)
    tl.store(grad_k + at, tl.dot(tl.trans(slope), Q).to(V.dtype), mask=real)
