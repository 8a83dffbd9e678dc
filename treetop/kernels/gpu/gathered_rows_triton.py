"""The Triton programs behind `gathered_rows.py`."""
# ruff: noqa: ANN001, ANN201
# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["n"])
def dots(table, ids, h, made, n, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """32 candidates of one document."""
    row = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * 32 + tl.arange(0, 32)
    columns = tl.arange(0, BLOCK)
    inside = columns < WIDTH
    H = tl.load(h + row * WIDTH + columns, mask=inside, other=0.0)
    which = tl.load(ids + row * n + place, mask=place < n, other=-1)
    real = (which >= 0)[:, None] & inside[None, :]
    W = tl.load(table + which[:, None] * WIDTH + columns[None, :], mask=real, other=0.0)
    tl.store(made + row * n + place, tl.sum(W * H[None, :], 1), mask=place < n)


@triton.jit(do_not_specialize=["n"])
def sums(table, ids, weights, parts, n, WIDTH: tl.constexpr, BLOCK: tl.constexpr, SPLIT: tl.constexpr):
    """One document's share of the weighted sum of its candidates' rows."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < WIDTH
    total = tl.zeros((BLOCK,), tl.float32)
    first = tl.program_id(1) * 8
    while first < n:
        place = first + tl.arange(0, 8)
        which = tl.load(ids + row * n + place, mask=place < n, other=-1)
        real = (which >= 0)[:, None] & inside[None, :]
        W = tl.load(table + which[:, None] * WIDTH + columns[None, :], mask=real, other=0.0)
        slope = tl.load(weights + row * n + place, mask=place < n, other=0.0)
        total += tl.sum(W * slope[:, None], 0)
        first += 8 * SPLIT
    tl.store(parts + (row * SPLIT + tl.program_id(1)) * WIDTH + columns, total, mask=inside)


@triton.jit
def take(table, ids, made, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """One row of the table, wherever that lies."""
    place = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < WIDTH
    which = tl.load(ids + place)
    W = tl.load(table + which * WIDTH + columns, mask=inside & (which >= 0), other=0.0)
    tl.store(made + place * WIDTH + columns, W, mask=inside)


@triton.jit
def update(
    weight, first, second, count, ids, ends, order, owner, slope, h, top, decay, beta1, beta2, eps,
    WIDTH: tl.constexpr, DECAYS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The row named at the first of its places in the sorted ids: its gradient, then Adam with its own step count."""
    place = tl.program_id(0).to(tl.int64)
    row = tl.load(ids + place)
    before = tl.load(ids + place - 1, mask=place > 0, other=-1)
    if (row < 0) | (row == before):
        return
    end = tl.load(ends + place)
    columns = tl.arange(0, BLOCK)
    inside = columns < WIDTH
    G = tl.zeros((BLOCK,), tl.float32)
    while place < end:
        at = tl.load(order + place)
        H = tl.load(h + tl.load(owner + at) * WIDTH + columns, mask=inside, other=0.0)
        G += tl.load(slope + at) * H
        place += 1
    rate = tl.load(top)
    steps = tl.load(count + row) + 1
    tl.debug_barrier()  # every warp reads the count before one of them raises it
    tl.store(count + row, steps)
    t = steps.to(tl.float32)
    mine = row * WIDTH + columns
    M = tl.load(first + mine, mask=inside, other=0.0)
    V = tl.load(second + mine, mask=inside, other=0.0)
    W = tl.load(weight + mine, mask=inside, other=0.0)
    M = M + (G - M) * (1.0 - beta1)
    V = V * beta2 + G * G * (1.0 - beta2)
    W = tl.where(columns < DECAYS, W * (1.0 - rate * decay), W)
    size = rate / (1.0 - tl.exp(t * tl.log(beta1)))
    root = tl.sqrt(V / (1.0 - tl.exp(t * tl.log(beta2)))) + eps
    tl.store(first + mine, M, mask=inside)
    tl.store(second + mine, V, mask=inside)
    tl.store(weight + mine, W - size * M / root, mask=inside)
