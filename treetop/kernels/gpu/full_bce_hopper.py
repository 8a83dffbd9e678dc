"""The step of `full_bce_low.py` for GPUs of compute capability 9.0: both products of a chunk's slopes in one pass.

Programs stay, each with its columns of h. The copy engine brings tiles of slopes and weights two ahead; while the
tensor cores add a tile's share of the gradient over h, the processor makes the weights' step of the same tile.
"""
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: ignore-errors

from typing import Any

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_init,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from treetop.kernels.gpu.full_bce_triton import mixed

STAGES = gl.constexpr(3)  # tiles in the processor's memory, one at work and two on their way
WARPS = gl.constexpr(8)


def described(tensor: Any, rows: int, columns: int) -> Any:
    """A tensor descriptor for the copy engine, with blocks of this shape."""
    layout = gl.NVMMASharedLayout.get_default_for([rows, columns], gl.bfloat16)
    return TensorDescriptor.from_tensor(tensor, [rows, columns], layout)


@gluon.jit
def _bring(made, weight, barriers, S, W, top, start, i, more):
    """Ask for the program's tile `i`, if there are more."""
    at = i % STAGES
    mbarrier.expect(barriers.index(at), made.block_type.nbytes + weight.block_type.nbytes, more)
    tma.async_copy_global_to_shared(made, [top, 0], barriers.index(at), S.index(at), more)
    tma.async_copy_global_to_shared(weight, [top, start], barriers.index(at), W.index(at), more)


@gluon.jit(do_not_specialize=["first", "n"])
def step_both(
    made, h, weight, grad, rate, draw, scale, decay, first, n,
    WIDTH: gl.constexpr, PADDED: gl.constexpr, STOCHASTIC: gl.constexpr, LABELS: gl.constexpr, COLUMNS: gl.constexpr,
):  # fmt: skip
    """A tile of labels at a time: grad += slopes^T w, then w <- rounded(w - rate (scale slopes h + decay w))."""
    STEP: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, WARPS // 4], [16, COLUMNS * 4 // WARPS, 16])
    BACK: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [WARPS, 1], [16, COLUMNS, 16])
    blocks: gl.constexpr = (WIDTH + COLUMNS - 1) // COLUMNS
    start = gl.program_id(0) % blocks * COLUMNS
    one = gl.program_id(0) // blocks
    side = gl.num_programs(0) // blocks
    count = ((n + LABELS - 1) // LABELS - one + side - 1) // side

    S = gl.allocate_shared_memory(gl.bfloat16, [STAGES, LABELS, PADDED], made.layout)
    W = gl.allocate_shared_memory(gl.bfloat16, [STAGES, LABELS, COLUMNS], weight.layout)
    H = gl.allocate_shared_memory(gl.bfloat16, [PADDED, COLUMNS], h.layout)
    changed = gl.allocate_shared_memory(gl.bfloat16, [LABELS, COLUMNS], weight.layout)
    barriers = gl.allocate_shared_memory(gl.int64, [STAGES + 1, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES + 1):
        mbarrier.init(barriers.index(i), count=1)
    mbarrier.expect(barriers.index(STAGES), h.block_type.nbytes)
    tma.async_copy_global_to_shared(h, [0, start], barriers.index(STAGES), H)
    for i in gl.static_range(STAGES - 1):
        _bring(made, weight, barriers, S, W, (one + i * side) * LABELS, start, i, i < count)

    lr = gl.load(rate)
    line = gl.arange(0, LABELS, gl.SliceLayout(1, STEP))
    if STOCHASTIC:
        base = mixed(mixed(gl.load(draw + 1).to(gl.uint32) ^ 0x5BD1E995) ^ gl.load(draw).to(gl.uint32))
        column = start + gl.arange(0, COLUMNS, gl.SliceLayout(0, STEP))
        columns = mixed(column.to(gl.uint32) ^ mixed(base ^ 0x1B873593)) & 0xFFFF
    none = gl.zeros([LABELS, COLUMNS], gl.float32, STEP)
    A = warpgroup_mma_init(gl.zeros([PADDED, COLUMNS], gl.float32, BACK))
    mbarrier.wait(barriers.index(STAGES), 0)
    for i in range(count):
        at = i % STAGES
        top = (one + i * side) * LABELS
        mbarrier.wait(barriers.index(at), (i // STAGES) & 1)
        G = warpgroup_mma(S.index(at), H, none, use_acc=False, is_async=True)
        V = W.index(at).load(STEP).to(gl.float32)
        G, A = warpgroup_mma_wait(0, deps=(G, A))  # the tile before is done too
        tma.store_wait(0)
        gl.thread_barrier()
        ahead = i + STAGES - 1
        _bring(made, weight, barriers, S, W, (one + ahead * side) * LABELS, start, ahead, ahead < count)
        A = warpgroup_mma(S.index(at).permute((1, 0)), W.index(at), A, is_async=True)
        V = V - lr * (scale * G + decay * V)
        if STOCHASTIC:
            rows = mixed((top + first + line).to(gl.uint32) ^ base) & 0xFFFF
            bits = gl.expand_dims(rows, 1) ^ gl.expand_dims(columns, 0)
            up = (V.to(gl.uint32, bitcast=True) + bits) & 0xFFFF0000
            V = gl.where(V == V, up.to(gl.float32, bitcast=True), V)  # the carry could turn a NaN into a number
        changed.store(V.to(gl.bfloat16))
        fence_async_shared()
        gl.thread_barrier()
        tma.async_copy_shared_to_global(weight, [top, start], changed)
    tma.store_wait(0)
    A = warpgroup_mma_wait(0, deps=(A,))
    for i in gl.static_range(STAGES + 1):
        mbarrier.invalidate(barriers.index(i))
    row = one * PADDED + gl.arange(0, PADDED, gl.SliceLayout(1, BACK))
    across = start + gl.arange(0, COLUMNS, gl.SliceLayout(0, BACK))
    place = grad + (gl.expand_dims(row, 1) * WIDTH + gl.expand_dims(across, 0))
    real = gl.expand_dims(row >= 0, 1) & gl.expand_dims(across < WIDTH, 0)
    gl.store(place, A + gl.load(place, mask=real, other=0.0), mask=real)
