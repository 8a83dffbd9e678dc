"""Named views of a batch, each computed when first asked for and kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any


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
