"""Whether the Triton programs run: on a GPU, or anywhere with TRITON_INTERPRET=1 (slow, for tests)."""

from __future__ import annotations

import os

from torch import Tensor

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


def power(n: int) -> int:
    """The smallest power of 2 that is at least `n`, as block sizes must be."""
    return 1 << (n - 1).bit_length()


def here(tensor: Tensor) -> bool:
    """True when this tensor's work goes to the Triton programs, False when to their twins in plain torch."""
    return tensor.is_cuda or INTERPRETED
