"""Two descriptions of the same labels as one."""

from __future__ import annotations

from typing import Any

from scipy import sparse

from treetop.core.errors import InputError


def beside(first: Any, second: Any) -> Any:
    """[first | second] (labels x both widths)."""
    return sparse.hstack([first, second], format="csr")


def mixed(first: Any, second: Any) -> Any:
    """The mean of two descriptions of the same width."""
    if first.shape != second.shape:
        raise InputError(
            f"labels: cannot mix descriptions of {first.shape} and {second.shape}. Use the same features for both, "
            "or put them side by side."
        )
    return (0.5 * first + 0.5 * second).tocsr()
