"""Compile GPU kernels in parallel while texts are tokenised, which makes a cold start seconds faster.

Nothing depends on it: a kernel that is not ready at the first step is compiled then.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from treetop.core.log import logger
from treetop.kernels.gpu import triton_runs
from treetop.kernels.gpu.packed_attention import TILES
from treetop.kernels.runtime import threads

Work = Callable[[], Any]


@dataclass(frozen=True)
class Shapes:
    """Dimensions and constants of an encoder that its kernels are compiled for."""

    width: int
    inner: int
    heads: int
    eps: float
    dropout: float  # of the attention weights


class Warmup:
    """Compilations running in the background."""

    def __init__(self, shapes: Shapes | None, device: torch.device) -> None:
        self._futures: list[Future[None]] = []
        if shapes is None or device.type != "cuda":
            return
        work = [*_attention(shapes), *_layers(shapes)]
        pool = ThreadPoolExecutor(max(1, min(len(work), threads.count())), "compile")
        self._futures = [pool.submit(_quietly, item, device) for item in work]
        pool.shutdown(wait=False)

    def wait(self) -> None:
        """Wait for all of them."""
        for future in self._futures:
            future.result()
        self._futures = []


def _quietly(work: Work, device: torch.device) -> None:
    try:
        with torch.cuda.device(device):
            work()
    except Exception as error:  # the first step will compile it again, or report the error
        logger.debug("compiling ahead failed: %s", error)


def _attention(shapes: Shapes) -> list[Work]:
    from treetop.kernels.gpu import packed_attention_triton as programs

    bf16, f32, i32 = torch.bfloat16, torch.float32, torch.int32
    size = shapes.width // shapes.heads
    if size not in (16, 32, 64, 128):
        return []
    work: list[Work] = []
    scalars = (size**-0.5, shapes.dropout)
    for above, tile in reversed(TILES):  # longest sequences first
        constants = {
            "HEADS": shapes.heads,
            "WIDTH": size,
            "ABOVE": above,
            "TILE": tile,
            "DROP": shapes.dropout > 0.0,
            "num_warps": 1 if tile <= 32 else 4,
            "grid": (1, shapes.heads),
        }
        backward = (*[bf16] * 5, f32, *[bf16] * 3, i32, i32)
        work.append(partial(programs.backward.warmup, *backward, *scalars, **constants))
        forward = (*[bf16] * 4, f32, i32, i32)
        work.append(partial(programs.forward.warmup, *forward, *scalars, **constants))
    return work


def _layers(shapes: Shapes) -> list[Work]:
    from treetop.kernels.gpu import one_pass_layers_triton as programs

    bf16, f32, n = torch.bfloat16, torch.float32, 4099
    norm = {"WIDTH": shapes.width, "BLOCK": triton_runs.power(shapes.width), "ROWS": 4, "num_warps": 4, "grid": (1,)}
    sums = {"ROWS": 32, "num_warps": 4, "grid": (1, 1)}
    return [
        partial(programs.norm_backward.warmup, *[bf16] * 3, f32, f32, bf16, f32, f32, n, **norm),
        partial(programs.norm_forward.warmup, *[bf16] * 4, f32, f32, n, shapes.eps, **norm),
        *(
            partial(programs.sum_columns.warmup, bf16, f32, n, WIDTH=width, **sums)
            for width in sorted({shapes.width, shapes.inner})
        ),
    ]
