"""GPU kernels compiled in parallel while texts are being read, which makes a cold start seconds faster.

Nothing depends on it: a program that is missing at the first step is compiled then.
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
    """What the programs of an encoder's step are compiled for."""

    width: int
    inner: int
    heads: int
    eps: float
    dropout: float  # of attention


class Warmup:
    """Compilations under way."""

    def __init__(self, shapes: Shapes | None, device: torch.device) -> None:
        self._waiting: list[Future[None]] = []
        if shapes is None or device.type != "cuda":
            return
        work = [*_attention(shapes), *_layers(shapes)]
        pool = ThreadPoolExecutor(max(1, min(len(work), threads.count())), "compile")
        self._waiting = [pool.submit(_quietly, item, device) for item in work]
        pool.shutdown(wait=False)

    def wait(self) -> None:
        """Return when all are done."""
        for future in self._waiting:
            future.result()
        self._waiting = []


def _quietly(work: Work, device: torch.device) -> None:
    try:
        with torch.cuda.device(device):
            work()
    except Exception as error:  # the step itself will compile it, or say what is wrong
        logger.debug("compiling ahead failed: %s", error)


def _attention(shapes: Shapes) -> list[Work]:
    from treetop.kernels.gpu import packed_attention_triton as programs

    half, single, whole = torch.bfloat16, torch.float32, torch.int32
    size = shapes.width // shapes.heads
    if size not in (16, 32, 64, 128):
        return []
    made: list[Work] = []
    numbers = (size**-0.5, shapes.dropout)
    for above, tile in reversed(TILES):  # the long ones first
        named = {
            "HEADS": shapes.heads,
            "WIDTH": size,
            "ABOVE": above,
            "TILE": tile,
            "DROP": shapes.dropout > 0.0,
            "num_warps": 1 if tile <= 32 else 4,
            "grid": (1, shapes.heads),
        }
        back = (*[half] * 5, single, *[half] * 3, whole, whole)
        made.append(partial(programs.backward.warmup, *back, *numbers, **named))
        ahead = (*[half] * 4, single, whole, whole)
        made.append(partial(programs.forward.warmup, *ahead, *numbers, **named))
    return made


def _layers(shapes: Shapes) -> list[Work]:
    from treetop.kernels.gpu import one_pass_layers_triton as programs

    half, single, n = torch.bfloat16, torch.float32, 4099
    named = {"WIDTH": shapes.width, "BLOCK": triton_runs.power(shapes.width), "ROWS": 4, "num_warps": 4, "grid": (1,)}
    sums = {"ROWS": 32, "num_warps": 4, "grid": (1, 1)}
    return [
        partial(programs.norm_backward.warmup, *[half] * 3, single, single, half, single, single, n, **named),
        partial(programs.norm_forward.warmup, *[half] * 4, single, single, n, shapes.eps, **named),
        *(
            partial(programs.sum_columns.warmup, half, single, n, WIDTH=width, **sums)
            for width in sorted({shapes.width, shapes.inner})
        ),
    ]
