"""The Triton programs behind `one_pass_layers.py`."""
# ruff: noqa: ANN001, ANN201
# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["n"])
def norm_forward(
    x, weight, bias, out, mean, scale, n, eps, WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr
):
    """Rows scaled to mean 0 and deviation 1, then by weight and bias."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK)
    inside = columns < WIDTH
    real = (rows < n)[:, None] & inside[None, :]
    at = rows.to(tl.int64)[:, None] * WIDTH + columns[None, :]
    X = tl.load(x + at, mask=real, other=0.0).to(tl.float32)
    middle = tl.sum(X, 1) / WIDTH
    X = tl.where(real, X - middle[:, None], 0.0)
    size = 1.0 / tl.sqrt(tl.sum(X * X, 1) / WIDTH + eps)
    tl.store(mean + rows, middle, mask=rows < n)
    tl.store(scale + rows, size, mask=rows < n)
    W = tl.load(weight + columns, mask=inside, other=0.0).to(tl.float32)
    B = tl.load(bias + columns, mask=inside, other=0.0).to(tl.float32)
    Y = X * size[:, None] * W[None, :] + B[None, :]
    tl.store(out + at, Y.to(out.dtype.element_ty), mask=real)


@triton.jit(do_not_specialize=["n"])
def norm_backward(
    grad, x, weight, mean, scale, made, part_weight, part_bias, n,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """The slope over x, and this program's share of the slopes over weight and bias."""
    columns = tl.arange(0, BLOCK)
    inside = columns < WIDTH
    W = tl.load(weight + columns, mask=inside, other=0.0).to(tl.float32)
    sum_weight = tl.zeros((BLOCK,), tl.float32)
    sum_bias = tl.zeros((BLOCK,), tl.float32)
    first = tl.program_id(0) * ROWS
    while first < n:
        rows = first + tl.arange(0, ROWS)
        real = (rows < n)[:, None] & inside[None, :]
        at = rows.to(tl.int64)[:, None] * WIDTH + columns[None, :]
        X = tl.load(x + at, mask=real, other=0.0).to(tl.float32)
        G = tl.load(grad + at, mask=real, other=0.0).to(tl.float32)
        middle = tl.load(mean + rows, mask=rows < n, other=0.0)
        size = tl.load(scale + rows, mask=rows < n, other=0.0)
        X = tl.where(real, (X - middle[:, None]) * size[:, None], 0.0)
        sum_weight += tl.sum(G * X, 0)
        sum_bias += tl.sum(G, 0)
        G = G * W[None, :]
        along = tl.sum(G * X, 1) / WIDTH
        level = tl.sum(G, 1) / WIDTH
        slope = (G - level[:, None] - X * along[:, None]) * size[:, None]
        tl.store(made + at, slope.to(made.dtype.element_ty), mask=real)
        first += tl.num_programs(0) * ROWS
    place = tl.program_id(0) * WIDTH + columns
    tl.store(part_weight + place, sum_weight, mask=inside)
    tl.store(part_bias + place, sum_bias, mask=inside)


@triton.jit(do_not_specialize=["n"])
def sum_columns(rows, parts, n, WIDTH: tl.constexpr, ROWS: tl.constexpr):
    """A program's share of the sums of 128 columns."""
    columns = tl.program_id(1) * 128 + tl.arange(0, 128)
    inside = columns < WIDTH
    total = tl.zeros((128,), tl.float32)
    first = tl.program_id(0) * ROWS
    while first < n:
        place = first + tl.arange(0, ROWS)
        real = (place < n)[:, None] & inside[None, :]
        at = place.to(tl.int64)[:, None] * WIDTH + columns[None, :]
        total += tl.sum(tl.load(rows + at, mask=real, other=0.0).to(tl.float32), 0)
        first += tl.num_programs(0) * ROWS
    tl.store(parts + tl.program_id(0) * WIDTH + columns, total, mask=inside)
