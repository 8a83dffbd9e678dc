"""Probabilities of scores: piecewise linear maps, one for each bin of label frequency."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from treetop.kernels.runtime.compile import kernel_for

types: Any = numba.types
F32 = types.Array(types.float32, 1, "C", readonly=True)
I64 = types.Array(types.int64, 1, "C", readonly=True)
KNOTS = types.Array(types.float32, 3, "C", readonly=True)


@kernel_for(F32, I64, types.UniTuple(types.int64, 2), KNOTS)
def interpolate(values: Any, counts: Any, bounds: tuple[int, int], knots: Any) -> NDArray[np.float32]:
    """(n,) each value by the map of its bin, as `numpy.interp` does; flat outside of the knots.

    A count belongs to bin 0 up to the first bound, to bin 1 up to the second, else to bin 2; knots = (x and y, bins,
    length), x ascending.
    """
    found, length = np.empty(len(values), np.float32), knots.shape[2]
    for i in range(len(values)):
        b, value = int(counts[i] > bounds[0]) + int(counts[i] > bounds[1]), np.float64(values[i])
        x, y = knots[0, b], knots[1, b]
        low, high = 0, length
        while low < high:  # knots at or below the value
            middle = (low + high) // 2
            if x[middle] <= value:
                low = middle + 1
            else:
                high = middle
        if value != value:
            found[i] = value
        elif low == 0:
            found[i] = y[0]
        elif low == length or x[low - 1] == value:
            found[i] = y[low - 1]
        else:
            left, bottom = np.float64(x[low - 1]), np.float64(y[low - 1])
            slope = (np.float64(y[low]) - bottom) / (np.float64(x[low]) - left)
            found[i] = slope * (value - left) + bottom
    return found
