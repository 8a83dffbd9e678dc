"""What a component may offer beyond the contract of its stage; a class declares an ability by inheriting from it.

`types.py` says what every rank, shortlist and features object must do. These are optional: who uses one asks with
`isinstance` and has another way where a class does not declare it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treetop.core.dataset import Ints
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


class MovesToDevice(ABC):
    """Features that compute on a device (`torch.device`)."""

    @abstractmethod
    def to(self, device: Any) -> Any:
        """The same on another device."""


class NamesTerms(ABC):
    """Features whose columns have names."""

    @abstractmethod
    def terms(self, columns: Iterable[int] | None = None) -> list[str]:
        """The names of columns (all when none are given)."""
