"""Two label representations combined into one."""

from __future__ import annotations

from typing import Any

from scipy import sparse

from treetop.core.errors import InputError
from treetop.labels import pifa, text
from treetop.labels.source import Source


def describe_concatenated(source: Source) -> Any:
    """The description `pifa+text`."""
    second = text.describe(source)
    return concatenated(pifa.describe(source), second)


def describe_mixed(source: Source) -> Any:
    """The description `mixed`."""
    second = text.describe(source)
    return mixed(pifa.describe(source), second)


def concatenated(first: Any, second: Any) -> Any:
    """[first | second] (labels x both widths)."""
    return sparse.hstack([first, second], format="csr")


def mixed(first: Any, second: Any) -> Any:
    """The mean of two descriptions of the same width."""
    if first.shape != second.shape:
        raise InputError(
            f"label_features: cannot mix descriptions of {first.shape} and {second.shape}. Use the same features "
            "for both, or put them side by side."
        )
    return (0.5 * first + 0.5 * second).tocsr()
