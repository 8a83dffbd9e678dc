"""The Triton programs behind `full_bce_low.py`; labels are those of one chunk, so offsets fit 32 bits."""
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: ignore-errors

import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from treetop.kernels.fused import INTERPRETED

KIND = tl.constexpr(tl.float32 if INTERPRETED else tl.bfloat16)  # the interpreter cannot multiply bfloat16


def described(tensor, rows, columns):
    """A matrix as the copy engine wants it: brought in blocks of this shape."""
    return TensorDescriptor.from_tensor(tensor, [rows, columns])


@triton.jit
def _keep(Z, bias, made, parts, tile, label, row, n, rows, PADDED: tl.constexpr, VALUE: tl.constexpr):
    """Probabilities of a tile of logits, and their loss as negatives."""
    Z += tl.load(bias + label, mask=label < n, other=0.0)[:, None]
    real = (label < n)[:, None] & (row < rows)[None, :]
    P = tl.where(real, 1.0 / (1.0 + tl.exp(-Z)), 0.0)
    place = label[:, None] * PADDED + row[None, :]
    tl.store(made + place, P.to(made.dtype.element_ty), mask=(label < n)[:, None] & (row < PADDED)[None, :])
    if VALUE:
        E = tl.exp(-tl.abs(Z))
        rest = tl.where(E < 1e-3, E * (1.0 - 0.5 * E), tl.log(1.0 + E))  # log(1 + e) loses a small e
        total = tl.where(real, tl.maximum(Z, 0.0) + rest, 0.0)
        tl.store(parts + tile, tl.sum(tl.sum(total, 1), 0))


@triton.jit(do_not_specialize=["n", "rows"])
def slopes(
    h, weight, bias, made, parts, n, rows,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, VALUE: tl.constexpr,
    LABELS: tl.constexpr, BATCH: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """A tile of (label, row) probabilities, which are the slopes as if every label were negative."""
    blocks = (PADDED + BATCH - 1) // BATCH
    label = tl.program_id(0) // blocks * LABELS + tl.arange(0, LABELS)
    row = tl.program_id(0) % blocks * BATCH + tl.arange(0, BATCH)
    inner = tl.arange(0, INNER)
    # Places behind the end read the first ones: no mask in the loop, and nothing of them is kept.
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
    _keep(Z, bias, made, parts, tl.program_id(0), label, row, n, rows, PADDED, VALUE)


@triton.jit(do_not_specialize=["n", "rows"])
def slopes_bulk(
    h, weight, bias, made, parts, n, rows,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, VALUE: tl.constexpr,
    LABELS: tl.constexpr, BATCH: tl.constexpr, INNER: tl.constexpr, ROUNDS: tl.constexpr,
):  # fmt: skip
    """As `slopes`, by programs that stay and have tiles brought by the copy engine, which fills up with zeros."""
    blocks = (PADDED + BATCH - 1) // BATCH
    for i in tl.range(0, ROUNDS, flatten=True):
        tile = tl.program_id(0) + i * tl.num_programs(0)
        first = tile // blocks * LABELS
        begin = tile % blocks * BATCH
        Z = tl.zeros((LABELS, BATCH), tl.float32)
        for k in range(0, WIDTH, INNER):
            W = weight.load([first, k])
            H = h.load([begin, k])
            Z = tl.dot(W.to(KIND), tl.trans(H.to(KIND)), Z)
        label = first + tl.arange(0, LABELS)
        _keep(Z, bias, made, parts, tile, label, begin + tl.arange(0, BATCH), n, rows, PADDED, VALUE)


@triton.jit(do_not_specialize=["start", "n", "total"])
def correct(made, keys, columns, rows, targets, strengths, start, n, total, PADDED: tl.constexpr, STRONG: tl.constexpr):
    """The slope of one positive; triples are sorted, and the first of those at one place adds up all of them."""
    p = tl.program_id(0)
    column = (tl.load(columns + p) - start).to(tl.int32)
    if (column < 0) | (column >= n):
        return
    mine = tl.load(keys + p)
    before = tl.load(keys + p - 1, mask=p > 0, other=-1)
    if before == mine:
        return
    place = made + column * PADDED + tl.load(rows + p).to(tl.int32)
    negative = tl.load(place).to(tl.float32)
    slope = negative
    q = p
    same = mine
    while same == mine:
        target = tl.load(targets + q).to(tl.float32)
        if STRONG:
            slope += tl.load(strengths + q).to(tl.float32) * (negative - target) - negative
        else:
            slope -= target
        q += 1
        same = tl.load(keys + q, mask=q < total, other=-1)
    tl.store(place, slope.to(made.dtype.element_ty))


@triton.jit
def _mixed(x):
    """32 bits in, 32 bits out, every bit depending on every other (two odd multipliers, three folds)."""
    x = x ^ (x >> 16)
    x = x * 0x7FEB352D
    x = x ^ (x >> 15)
    x = x * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def _chopped(x, bits):
    """float32 rounded to what bfloat16 holds: up as often as `bits` (16 of them) carry."""
    up = (x.to(tl.uint32, bitcast=True) + bits) & 0xFFFF0000
    return tl.where(x == x, up.to(tl.float32, bitcast=True), x)  # the carry could turn a NaN into a number


@triton.jit
def _base(draw):
    """32 bits of (seed, step)."""
    zero = tl.zeros((1,), tl.uint32)
    made = _mixed((zero + tl.load(draw + 1).to(tl.uint32)) ^ 0x5BD1E995)
    return _mixed(made ^ tl.load(draw).to(tl.uint32))


@triton.jit
def _rounded(W, base, label, pair, LABELS: tl.constexpr, COLUMNS: tl.constexpr):
    """Neighbours share 32 random bits, which depend on seed, step, label and column alone."""
    rows = _mixed(label.to(tl.uint32) ^ base)
    columns = _mixed(pair.to(tl.uint32) ^ _mixed(base ^ 0x1B873593))
    R = _mixed(rows[:, None] ^ columns[None, :])
    left, right = tl.split(tl.reshape(W, (LABELS, COLUMNS // 2, 2)))
    both = tl.join(_chopped(left, R & 0xFFFF), _chopped(right, R >> 16))
    return tl.reshape(both, (LABELS, COLUMNS))


@triton.jit
def _apply(
    G, weight, base, lr, scale, decay, label, start, first, n,
    WIDTH: tl.constexpr, STOCHASTIC: tl.constexpr, LABELS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    column = start + tl.arange(0, COLUMNS)
    at = weight + (label[:, None] * WIDTH + column[None, :])
    real = (label < n)[:, None] & (column < WIDTH)[None, :]
    W = tl.load(at, mask=real, other=0.0).to(tl.float32)
    W = W - lr * (scale * G + decay * W)
    if STOCHASTIC:
        pair = start // 2 + tl.arange(0, COLUMNS // 2)
        W = _rounded(W, base, label + first, pair, LABELS, COLUMNS)
    tl.store(at, W.to(weight.dtype.element_ty), mask=real)


@triton.jit(do_not_specialize=["first", "n"])
def step(
    made, h, weight, bias, rate, draw, scale, decay, first, n,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, BIAS: tl.constexpr, STOCHASTIC: tl.constexpr,
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
    base = _base(draw)
    # In parts: gradient and weights of a whole tile would not fit the registers.
    HALF: tl.constexpr = COLUMNS // 2
    left, right = tl.split(tl.permute(tl.reshape(G, (LABELS, 2, HALF)), (0, 2, 1)))
    start = tl.program_id(0) % blocks * COLUMNS
    _apply(left, weight, base, lr, scale, decay, label, start, first, n, WIDTH, STOCHASTIC, LABELS, HALF)
    _apply(right, weight, base, lr, scale, decay, label, start + HALF, first, n, WIDTH, STOCHASTIC, LABELS, HALF)
    if BIAS & (tl.program_id(0) % blocks == 0):
        total = tl.zeros((LABELS,), tl.float32)
        at_s = made + (safe[:, None] * PADDED + inner[None, :])
        for _ in range(0, PADDED, INNER):
            total += tl.sum(tl.load(at_s).to(tl.float32), 1)
            at_s += INNER
        B = tl.load(bias + label, mask=label < n, other=0.0)
        tl.store(bias + label, B - lr * scale * total, mask=label < n)


@triton.jit(do_not_specialize=["first", "n"])
def step_held(
    made, h, weight, bias, rate, draw, scale, decay, first, n,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, BIAS: tl.constexpr, STOCHASTIC: tl.constexpr,
    LABELS: tl.constexpr, COLUMNS: tl.constexpr, ROUNDS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """As `step`, by programs that stay: each holds its columns of h and walks over tiles of labels."""
    blocks = (WIDTH + COLUMNS - 1) // COLUMNS
    start = tl.program_id(0) % blocks * COLUMNS
    column = start + tl.arange(0, COLUMNS)
    inner = tl.arange(0, PADDED)
    H = tl.load(h + (inner[:, None] * WIDTH + column[None, :]), mask=column[None, :] < WIDTH, other=0.0)
    lr = tl.load(rate)
    base = _base(draw)
    HALF: tl.constexpr = COLUMNS // 2
    for i in tl.range(0, ROUNDS, num_stages=STAGES):
        tile = tl.program_id(0) // blocks + i * (tl.num_programs(0) // blocks)
        label = tile * LABELS + tl.arange(0, LABELS)
        safe = tl.where(label < n, label, 0)
        S = tl.load(made + (safe[:, None] * PADDED + inner[None, :]))
        G = tl.dot(S.to(KIND), H.to(KIND))
        left, right = tl.split(tl.permute(tl.reshape(G, (LABELS, 2, HALF)), (0, 2, 1)))
        _apply(left, weight, base, lr, scale, decay, label, start, first, n, WIDTH, STOCHASTIC, LABELS, HALF)
        _apply(right, weight, base, lr, scale, decay, label, start + HALF, first, n, WIDTH, STOCHASTIC, LABELS, HALF)
        if BIAS & (start == 0):
            B = tl.load(bias + label, mask=label < n, other=0.0)
            tl.store(bias + label, B - lr * scale * tl.sum(S.to(tl.float32), 1), mask=label < n)
