"""Protocols of label vectors: all implement `LabelVectors`, most also the abilities below.

A class declares an ability by inheriting from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from treetop.core.types import Rank
from treetop.train.task import Table


class LabelVectors(Protocol):
    """Vectors (n, width) and biases (n,) of labels or nodes."""

    n: int
    width: int
    from_texts: bool  # made by what reads texts: they learn as it does, know labels never seen, and vary in shape

    @property
    def module(self) -> nn.Module | None:
        """Weights that the loop's optimiser updates."""
        ...

    @property
    def table(self) -> Table | None:
        """Weights that update themselves."""
        ...

    def whole(self) -> tuple[Tensor, Tensor]:
        """All vectors and biases as they are now."""
        ...


class Free(ABC):
    """Vectors that can be initialised with given values."""

    @abstractmethod
    def init(self, vectors: Tensor, bias: Tensor | None = None) -> None:
        """Start at vectors (n, width) and, where they are learned, biases (n,); each process takes its rows."""


class GivesLogits(ABC):
    """Vectors that return logits of candidates; those over all labels have a one-pass loss instead."""

    @abstractmethod
    def logits(self, h: Tensor, ids: Tensor | None) -> Tensor:
        """(rows, candidates); None: all labels in order; those of padding (-1) mean nothing."""


class GivesRows(ABC):
    """Vectors that penalties can be applied to."""

    @abstractmethod
    def vectors(self, ids: Tensor) -> Tensor:
        """(ids, width) with a graph, without biases."""


class BecomesRank(ABC):
    """Vectors that are not multiplied with a row's projection, so that they know best what they become in a model."""

    @abstractmethod
    def rank(self, unseen: NDArray[np.bool_] | None) -> Rank:
        """The rank; `unseen` labels are never returned."""
