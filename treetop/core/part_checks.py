"""Values of a saved part, checked before anything uses them: numbers in a range, finite arrays, permutations.

Opening a large model must not read all of it: an array of more than `QUICK` values is checked by `check_finite` only,
which a full check and `Model.save` call. Scores are always checked before they are returned.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treetop.core.errors import ModelError
from treetop.core.store import Part

BLOCK = 1 << 20
QUICK = 1 << 24  # values; more are not read when a model is opened
MOST = 2**31 - 1  # what a count may be
MOST_DOCUMENTS = 1 << 40  # that a model may be trained on
DAMAGED = "The model is damaged; copy it again."


def whole(part: Part, name: str, low: int, high: int = MOST) -> int:
    """A whole number from `low` to `high` among the settings of a part."""
    value: int = part.setting(name, int)
    if not low <= value <= high:
        raise ModelError(f"{part.kind}: setting '{name}' is {value}, allowed: {low} to {high}. {DAMAGED}")
    return value


def number(part: Part, name: str, low: float = -math.inf, high: float = math.inf) -> float:
    """A finite number from `low` to `high` among the settings of a part."""
    value: float = part.setting(name, float)
    if not (math.isfinite(value) and low <= value <= high):
        raise ModelError(f"{part.kind}: setting '{name}' is {value}, which is out of range. {DAMAGED}")
    return value


def floats(part: Part, name: str, *shape: int | None, dtype: str = "<f4") -> NDArray[Any]:
    """A float array whose values are finite; very large ones are left to `check_finite`."""
    array = part.array(name, dtype, *shape)
    if array.size <= QUICK:
        _check(part, name, array)
    return array


def distinct(part: Part, name: str, length: int | None, below: int) -> NDArray[np.int32]:
    """An index array with values in [0, below), none of them twice; with `below` of them it is a permutation."""
    indices = part.indices(name, "<i4", length, below)
    seen = np.zeros(max(below, 0), bool)
    seen[indices] = True
    if int(np.count_nonzero(seen)) != len(indices):
        raise ModelError(f"{part.kind}: array '{name}' contains an index twice. {DAMAGED}")
    return indices


def check_finite(part: Part) -> None:
    """Refuse NaN and infinite values in the arrays of a part and of all parts inside it."""
    for name, array in part.arrays.items():
        _check(part, name, array)
    for inner in part.parts.values():
        check_finite(inner)


def _check(part: Part, name: str, array: NDArray[Any]) -> None:
    if array.dtype == np.uint16 and part.config.get("storage") == "float16":
        array = array.view(np.float16)
    if array.dtype.kind != "f":
        return
    flat = array.reshape(-1)
    absent = name == "bias" and part.kind.startswith("rank.") and "flags" not in part.arrays  # -inf: never returned
    for start in range(0, len(flat), BLOCK):
        block = flat[start : start + BLOCK]
        if not ((block < np.inf) if absent else np.isfinite(block)).all():
            raise ModelError(f"{part.kind}: array '{name}' has a value that is NaN or infinite. {DAMAGED}")


def check_counts(counts: NDArray[np.integer], n_labels: int, n_train: int) -> None:
    """Refuse impossible counts of training texts; sums of them must not overflow."""
    if not 0 <= n_train <= MOST_DOCUMENTS:
        raise ModelError(f"n_train: {n_train} is not a number of training texts.")
    if len(counts) != n_labels:
        raise ModelError(f"counts: {len(counts)} training counts for {n_labels} labels.")
    low, high = int(counts.min(initial=0)), int(counts.max(initial=0))
    if low < 0 or high > n_train:
        raise ModelError(f"counts: labels of {low} to {high} training texts, but there are {n_train}.")
