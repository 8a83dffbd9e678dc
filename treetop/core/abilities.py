"""What a component may offer beyond the contract of its stage; a class declares an ability by inheriting from it.

`types.py` says what every rank, shortlist and features object must do. These are optional: who uses one asks with
`isinstance` and has another way where a class does not declare it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from treetop.core.dataset import Ints
from treetop.core.errors import ConfigError
from treetop.core.types import Floats, Join, Level, Ranking, Shortlist, View


class WalksAllLevels(ABC):
    """A rank that can take a batch through all levels of a member at once."""

    @abstractmethod
    def walk(self, levels: Sequence[Level], view: View, k: int) -> Ranking | None:
        """The result of the level-by-level loop, bit by bit; None if these levels do not allow it."""


class RanksSiblings(ABC):
    """A rank whose nodes are grouped by parent, so that children need not be listed one by one."""

    @property
    @abstractmethod
    def n_chunks(self) -> int:
        """Groups of siblings: one per node of the level above."""

    @abstractmethod
    def below(self, view: View, shortlist: Shortlist, above: Ranking, join: Join, keep: int) -> Ranking | None:
        """The best `keep` children of the nodes `above`; None where the shortlist has other siblings."""


class HasContributions(ABC):
    """A rank whose margin is a sum over features, which explanations show."""

    @abstractmethod
    def contributions(self, view: Any, node: int) -> tuple[NDArray[np.int64], Floats, float, bool]:
        """(columns, their parts of the margin, bias, copies its parent?) of one text's row for a node."""


class HasParents(ABC):
    """A shortlist that goes from the nodes above to their children."""

    n_parents: int
    indptr: Ints  # (n_parents + 1,)
    children: NDArray[np.int32]  # grouped by parent, ascending

    @abstractmethod
    def parent_of(self, node: int) -> int:
        """The parent of a node."""


class StandsForAll:
    """A shortlist of the labels nearest to a text, where to score all of them takes too long; on a GPU it does not."""


class MovesToDevice(ABC):
    """Features or a rank that can compute on a device (`torch.device`)."""

    @property
    def movable(self) -> bool:
        """Whether there is anything to move."""
        return True

    @abstractmethod
    def to(self, device: Any) -> Self:
        """The same on another device; this one stays where it is."""


class RanksOnDevice(MovesToDevice):
    """A rank that scores and selects on the device it was moved to; only ids and scores come back."""

    @abstractmethod
    def on_device(
        self, view: View, shortlist: Shortlist, above: Ranking | None, join: Join, keep: int
    ) -> Ranking | None:
        """The best `keep` nodes, of all or below those `above`; None where it lies on the host."""


def check_device(name: Any) -> None:
    """Refuse what is not the name of a device; whether there is one is for `tensors/devices.py`."""
    if not (isinstance(name, str) and re.fullmatch(r"auto|cpu|cuda(:\d+)?", name)):
        raise ConfigError(f"device: unknown value '{name}'. Choose one of auto, cpu, cuda, cuda:1.")


class NamesTerms(ABC):
    """Features whose columns have names."""

    @abstractmethod
    def terms(self, columns: Iterable[int] | None = None) -> list[str]:
        """The names of columns (all when none are given)."""
