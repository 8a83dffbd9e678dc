"""Named views of a batch, each computed when first asked for and kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

TOLD = 0.01  # share of the texts that are cut from which a user is told


class Views(Mapping[str, Any]):
    """A mapping whose values are made on first use.

    >>> views = Views({"length": lambda: len("a cat")})
    >>> views["length"]
    5
    """

    def __init__(self, makers: Mapping[str, Callable[[], Any]]) -> None:
        self._makers, self._made = makers, dict[str, Any]()

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._makers

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


def merged_cuts(found: Iterable[Mapping[int, NDArray[np.bool_]]]) -> dict[int, NDArray[np.bool_]]:
    """What several encoders cut, in one: a text counts once for each length."""
    merged: dict[int, NDArray[np.bool_]] = {}
    for cuts in found:
        for length, rows in cuts.items():
            merged[length] = rows | merged[length] if length in merged else rows
    return merged
