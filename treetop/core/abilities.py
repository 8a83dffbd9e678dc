"""What a component may offer beyond the contract of its stage; a class declares an ability by inheriting from it.

`types.py` says what every rank, shortlist and features object must do. These are optional: who uses one asks with
`isinstance` and has another way where a class does not declare it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from treetop.core.dataset import Ints
from treetop.core.errors import ConfigError
from treetop.core.texts import Texts
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


@dataclass(frozen=True, eq=False)
class Gradient:
    """A node's margin for one text as a linear function of the text's view: bias + weights . view[columns]."""

    weights: Floats
    bias: float
    columns: NDArray[np.int64] | None = None  # None: all of the view, in order
    copied: bool = False  # whether the node passes its parent's scores on
    parts: Mapping[str, float] = field(default_factory=dict)  # what heads say, where there are several; with the bias
    tokens: bool = False  # weights are what the tokens of a sequence add, one for each

    def dense(self, width: int) -> Floats:
        """(width,) the weights of all columns."""
        if self.columns is None:
            return self.weights
        whole = np.zeros(width, np.float32)
        whole[self.columns] = self.weights
        return whole


class HasGradient(ABC):
    """A rank whose margins are linear in the view near a text, which explanations follow back to words."""

    reads: ClassVar[str] = "weights"  # what a margin is made of: weights, votes of training texts, a count, attention

    @abstractmethod
    def gradient(self, view: View, node: int) -> Gradient:
        """How the margin of a node depends on the view of one text."""


@dataclass(frozen=True)
class Share:
    """What a term or word of a text adds to a linear function of a view, and where it stands."""

    term: str
    amount: float
    spans: tuple[tuple[int, int], ...] = ()  # (start, end) in characters of the text as given


@dataclass(frozen=True)
class Shares:
    """A linear function of a view shared out over the words of a text: value = base + amounts, but for a small gap."""

    words: list[Share]
    base: float = 0.0  # its value without any words
    exact: bool = True  # False: by integrated gradients


class SharesOut(ABC):
    """Features that can say what the words of a text add to a linear function of one of their views."""

    @abstractmethod
    def shares(self, text: str, view: str, gradients: Sequence[Gradient]) -> list[Shares] | None:
        """One for each gradient (its bias left out); None where this view's words are not known."""


class HasLabelVectors(ABC):
    """A rank with one vector for each node, by which nodes can be compared."""

    @abstractmethod
    def vector(self, node: int) -> Any:
        """The vector of a node, as `similar` reads it."""

    @abstractmethod
    def similar(self, vector: Any, keep: int) -> tuple[NDArray[np.int64], Floats]:
        """(nodes, cosines) whose vectors point most nearly the same way, best first."""


@dataclass(frozen=True)
class NearText:
    """A training text that resembles the text at hand: its row, how much, and its part of the label's score."""

    row: int
    similarity: float
    vote: float


class HasNearTexts(ABC):
    """A rank that knows the training texts behind a score."""

    @property
    @abstractmethod
    def n_documents(self) -> int:
        """Training texts that may vote."""

    @abstractmethod
    def near_texts(self, view: View, node: int) -> list[NearText]:
        """Those that carry the label, nearest first; their votes sum to its margin."""


class AddsUp(ABC):
    """A fusion whose log odds are a sum over its sources."""

    @abstractmethod
    def parts(self, pairs: Any, counts: NDArray[np.integer]) -> Floats:
        """(pairs, sources + 1) what each source adds, and what no source does; rows sum to the log odds."""


class HasParents(ABC):
    """A shortlist that goes from the nodes above to their children."""

    n_parents: int
    indptr: Ints  # (n_parents + 1,)
    children: NDArray[np.int32]  # grouped by parent, ascending

    def parents_of(self, node: int) -> list[int]:
        """The nodes above a node: one, but for labels added after training."""
        places = np.flatnonzero(self.children == node)
        return (np.searchsorted(self.indptr, places, side="right") - 1).tolist()  # type: ignore[no-any-return]

    def below(self, nodes: Ints) -> Ints:
        """All children of some nodes."""
        counts = np.diff(self.indptr)[nodes]
        ends = np.cumsum(counts)
        first = np.repeat(self.indptr[nodes] - (ends - counts), counts)
        found: Ints = self.children[first + np.arange(int(counts.sum()))].astype(np.int64)
        return found


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


class CutsTexts(ABC):
    """Features with encoders that read no more than the beginning of a long text."""

    @abstractmethod
    def cut(self, texts: Texts) -> Mapping[int, NDArray[np.bool_]]:
        """{tokens an encoder reads at most: which texts have as many or more}; of encoders that read only these."""


class HasFastForm(ABC):
    """Features or a rank with a form for the CPU that answers faster and nearly the same."""

    @abstractmethod
    def fast(self) -> Self:
        """That form; itself where there is nothing to gain."""


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
