"""The Triton programs behind `full_bce_low.py`; labels are those of one chunk, so offsets fit 32 bits."""
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: ignore-errors

from typing import Any

import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from treetop.kernels.gpu.triton_runs import INTERPRETED

KIND = tl.constexpr(tl.float32 if INTERPRETED else tl.bfloat16)  # the interpreter cannot multiply bfloat16


def described(tensor: Any, rows: int, columns: int) -> Any:
    """A tensor descriptor for the copy engine, with blocks of this shape."""
    return TensorDescriptor.from_tensor(tensor, [rows, columns])


@triton.jit
def _probabilities(Z, bias, sums, parts, tile, block, label, row, n, rows, VALUE: tl.constexpr):
    """Probabilities of a tile of logits; their sums over the rows and their loss as negatives are written."""
    Z += tl.load(bias + label, mask=label < n, other=0.0)[:, None]
    real = (label < n)[:, None] & (row < rows)[None, :]
    P = tl.where(real, 1.0 / (1.0 + tl.exp(-Z)), 0.0)
    tl.store(sums + block * n + label, tl.sum(P, 1), mask=label < n)
    if VALUE:
        E = tl.exp(-tl.abs(Z))
        rest = tl.where(E < 1e-3, E * (1.0 - 0.5 * E), tl.log(1.0 + E))  # log(1 + e) loses a small e
        total = tl.where(real, tl.maximum(Z, 0.0) + rest, 0.0)
        tl.store(parts + tile, tl.sum(tl.sum(total, 1), 0))
    return P


@triton.jit(do_not_specialize=["n", "rows"])
def slopes(
    h, weight, made, bias, sums, parts, n, rows,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, VALUE: tl.constexpr,
    LABELS: tl.constexpr, BATCH: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """A tile of (label, row) probabilities, which are the slopes as if every label were negative."""
    blocks = (PADDED + BATCH - 1) // BATCH
    label = tl.program_id(0) // blocks * LABELS + tl.arange(0, LABELS)
    row = tl.program_id(0) % blocks * BATCH + tl.arange(0, BATCH)
    inner = tl.arange(0, INNER)
    # Indices beyond the end read the first ones: no mask in the loop, and the results are discarded.
    at_w = weight + (tl.where(label < n, label, 0)[:, None] * WIDTH + inner[None, :])
    at_h = h + (tl.where(row < PADDED, row, 0)[None, :] * WIDTH + inner[:, None])
    Z = tl.zeros((LABELS, BATCH), tl.float32)
    for k in range(0, WIDTH, INNER):
        if WIDTH % INNER == 0:
            W = tl.load(at_w)
            H = tl.load(at_h)
        else:
            W = tl.load(at_w, mask=inner[None, :] < WIDTH - k, other=0.0)
            H = tl.load(at_h, mask=inner[:, None] < WIDTH - k, other=0.0)
        Z = tl.dot(W.to(KIND), H.to(KIND), Z)
        at_w += INNER
        at_h += INNER
    tile = tl.program_id(0)
    P = _probabilities(Z, bias, sums, parts, tile, tile % blocks, label, row, n, rows, VALUE)
    place = label[:, None] * PADDED + row[None, :]
    tl.store(made + place, P.to(made.dtype.element_ty), mask=(label < n)[:, None] & (row < PADDED)[None, :])


@triton.jit(do_not_specialize=["n", "rows"])
def slopes_bulk(
    h, weight, made, bias, sums, parts, n, rows,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, VALUE: tl.constexpr,
    LABELS: tl.constexpr, BATCH: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """As `slopes`, with tiles brought by the copy engine, which fills up with zeros."""
    blocks = (PADDED + BATCH - 1) // BATCH
    tile = tl.program_id(0)
    first = tile // blocks * LABELS
    begin = tile % blocks * BATCH
    Z = tl.zeros((LABELS, BATCH), tl.float32)
    for k in range(0, WIDTH, INNER):
        W = weight.load([first, k])
        H = h.load([begin, k])
        Z = tl.dot(W.to(KIND), tl.trans(H.to(KIND)), Z)
    label = first + tl.arange(0, LABELS)
    row = begin + tl.arange(0, BATCH)
    P = _probabilities(Z, bias, sums, parts, tile, tile % blocks, label, row, n, rows, VALUE)
    made.store([first, begin], P.to(made.dtype))


@triton.jit(do_not_specialize=["total"])
def merge(keys, rows, targets, strengths, factor, offset, total, STRONG: tl.constexpr):
    """Adjacent triples of the same entry merged into one: its slope is factor * negative slope - offset."""
    p = tl.program_id(0)
    mine = tl.load(keys + p)
    before = tl.load(keys + p - 1, mask=p > 0, other=-1)
    if before == mine:  # counted by the first
        tl.store(rows + p, -1)
        return
    more = 1.0
    less = 0.0
    q = p
    same = mine
    while same == mine:
        target = tl.load(targets + q).to(tl.float32)
        if STRONG:
            strength = tl.load(strengths + q).to(tl.float32)
            more += strength - 1.0
            less += strength * target
        else:
            less += target
        q += 1
        same = tl.load(keys + q, mask=q < total, other=-1)
    tl.store(factor + p, more)
    tl.store(offset + p, less)


@triton.jit(do_not_specialize=["start", "n", "total"])
def correct(made, sums, columns, rows, factor, offset, start, n, total, PADDED: tl.constexpr, WIDE: tl.constexpr):
    """The slopes of one label's positives, `WIDE` at a time, by the program of the first of them."""
    p = tl.program_id(0)
    mine = tl.load(columns + p)
    label = (mine - start).to(tl.int32)
    if (label < 0) | (label >= n):
        return
    before = tl.load(columns + p - 1, mask=p > 0, other=-1)
    if before == mine:
        return
    change = tl.load(sums + label)
    q = p
    same = mine
    while same == mine:
        at = q + tl.arange(0, WIDE)
        row = tl.load(rows + at, mask=at < total, other=-1).to(tl.int32)
        real = (tl.load(columns + at, mask=at < total, other=-1) == mine) & (row >= 0)
        more = tl.load(factor + at, mask=real, other=0.0)
        less = tl.load(offset + at, mask=real, other=0.0)
        negative = tl.load(made + label * PADDED + row, mask=real, other=0.0).to(tl.float32)
        slope = more * negative - less
        tl.store(made + label * PADDED + row, slope.to(made.dtype.element_ty), mask=real)
        change += tl.sum(tl.where(real, slope - negative, 0.0), 0)
        q += WIDE
        same = tl.load(columns + q, mask=q < total, other=-1)
    tl.store(sums + label, change)


@triton.jit
def mixed(x):
    """32 bits in, 32 bits out, every bit depending on every other (two odd multipliers, three folds)."""
    x = x ^ (x >> 16)
    x = x * 0x7FEB352D
    x = x ^ (x >> 15)
    x = x * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def _base(draw, STOCHASTIC: tl.constexpr):
    """32 bits of (seed, step)."""
    made = tl.zeros((1,), tl.uint32)
    if STOCHASTIC:
        made = mixed((made + tl.load(draw + 1).to(tl.uint32)) ^ 0x5BD1E995)
        made = mixed(made ^ tl.load(draw).to(tl.uint32))
    return made


@triton.jit
def _rounded(W, base, label, column):
    """float32 rounded stochastically to bfloat16 by 16 random bits from seed, step, label and column."""
    rows = mixed(label.to(tl.uint32) ^ base) & 0xFFFF
    columns = mixed(column.to(tl.uint32) ^ mixed(base ^ 0x1B873593)) & 0xFFFF
    up = (W.to(tl.uint32, bitcast=True) + (rows[:, None] ^ columns[None, :])) & 0xFFFF0000
    return tl.where(W == W, up.to(tl.float32, bitcast=True), W)  # the carry could turn a NaN into a number


@triton.jit
def _apply(
    G, weight, base, lr, scale, decay, label, start, first, n,
    WIDTH: tl.constexpr, STOCHASTIC: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The step of a tile of weights."""
    column = start + tl.arange(0, COLUMNS)
    at = weight + (label[:, None] * WIDTH + column[None, :])
    real = (label < n)[:, None] & (column < WIDTH)[None, :]
    W = tl.load(at, mask=real, other=0.0).to(tl.float32)
    W = W - lr * (scale * G + decay * W)
    if STOCHASTIC:
        W = _rounded(W, base, label + first, column)
    tl.store(at, W.to(weight.dtype.element_ty), mask=real)


@triton.jit(do_not_specialize=["first", "n"])
def step(
    made, h, weight, rate, draw, scale, decay, first, n,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, STOCHASTIC: tl.constexpr,
    LABELS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """A tile of the weights' gradient, used on the spot: w <- rounded(w - rate (scale g + decay w))."""
    blocks = (WIDTH + COLUMNS - 1) // COLUMNS
    label = tl.program_id(0) // blocks * LABELS + tl.arange(0, LABELS)
    column = tl.program_id(0) % blocks * COLUMNS + tl.arange(0, COLUMNS)
    inner = tl.arange(0, INNER)
    safe = tl.where(label < n, label, 0)
    at_s = made + (safe[:, None] * PADDED + inner[None, :])
    at_h = h + (inner[:, None] * WIDTH + column[None, :])
    G = tl.zeros((LABELS, COLUMNS), tl.float32)
    for _ in range(0, PADDED, INNER):
        S = tl.load(at_s)
        if WIDTH % COLUMNS == 0:
            H = tl.load(at_h)
        else:
            H = tl.load(at_h, mask=column[None, :] < WIDTH, other=0.0)
        G = tl.dot(S.to(KIND), H.to(KIND), G)
        at_s += INNER
        at_h += INNER * WIDTH
    lr = tl.load(rate)
    base = _base(draw, STOCHASTIC)
    # In parts: gradient and weights of a whole tile would not fit the registers.
    HALF: tl.constexpr = COLUMNS // 2
    left, right = tl.split(tl.permute(tl.reshape(G, (LABELS, 2, HALF)), (0, 2, 1)))
    start = tl.program_id(0) % blocks * COLUMNS
    after = start + HALF
    _apply(left, weight, base, lr, scale, decay, label, start, first, n, WIDTH, STOCHASTIC, HALF)
    _apply(right, weight, base, lr, scale, decay, label, after, first, n, WIDTH, STOCHASTIC, HALF)
