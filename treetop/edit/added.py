"""Labels added after training in one member of a model: vectors from their texts, or linear functions of examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from treetop.core.dataset import Ints
from treetop.core.errors import ModelError
from treetop.core.store import Part
from treetop.core.types import Level
from treetop.rank.added import Added
from treetop.rank.added_linear import AddedLinear
from treetop.rank.head import Head
from treetop.rank.linear import Linear
from treetop.shortlist.descend import Descend
from treetop.shortlist.everything import Everything

Parents = list[NDArray[np.int32]]


class AddedLabels(Protocol):
    """Added labels in one member, in the order in which they were added."""

    parents: Parents  # nodes above each label; empty where the member has one level

    def extend(self, more: Any) -> None:
        """Take labels that were added later."""

    def put(self, places: Ints, new: Any) -> None:
        """Take other vectors for labels that are there."""

    def rank(self, trained: Any) -> Any:
        """What ranks them beside the trained labels."""


class Vectors:
    """Labels that were added by their texts."""

    def __init__(self, part: Part, n: int, head: Head, parents: Parents) -> None:
        self.weight = np.array(part.array("weight", "<f4", n, head.weight.shape[1]))
        self.bias, self.parents = np.array(part.array("bias", "<f4", n)), parents
        if not (np.isfinite(self.weight).all() and np.isfinite(self.bias).all()):
            raise ModelError("a label vector is not finite. The model is damaged; copy it again.")

    def extend(self, more: Vectors) -> None:
        self.weight = np.concatenate([self.weight, more.weight])
        self.bias = np.concatenate([self.bias, more.bias])
        self.parents += more.parents

    def put(self, places: Ints, new: Vectors) -> None:
        self.weight[places], self.bias[places] = new.weight, new.bias
        for place, nodes in zip(places.tolist(), new.parents, strict=False):
            self.parents[place] = nodes

    def rank(self, trained: Head) -> Added:
        return Added(self.weight, self.bias, trained)


class Functions:
    """Labels that were added by examples: a linear function each."""

    def __init__(self, part: Part, n: int, trained: Linear, parents: Parents) -> None:
        functions = part.parts.get("rank")
        if functions is None or functions.kind != Linear.kind:
            raise ModelError("no linear functions for the labels it adds. Copy the model again.")
        rank = Linear.from_part(functions)
        if (rank.n, rank.n_chunks, rank.n_features) != (n, n, trained.n_features):
            raise ModelError(f"{rank.n} linear functions for {n} labels. The model is damaged; copy it again.")
        self.ranks, self.parents = [rank], parents

    def extend(self, more: Functions) -> None:
        self.ranks += more.ranks
        self.parents += more.parents

    def put(self, places: Ints, new: Functions) -> None:
        raise ModelError("it recomputes the vector of a label that was learned from examples. Copy the model again.")

    def rank(self, trained: Linear) -> AddedLinear:
        return AddedLinear.joined(self.ranks)


def read_added(part: Part, n: int, m: int, levels: Sequence[Level]) -> AddedLabels:
    """The `n` labels that a change adds to member `m`."""
    inner, rank = part.parts.get(f"member-{m:02d}"), levels[-1].rank
    if inner is None or not isinstance(rank, Head | Linear):
        raise ModelError(f"no vectors for member {m + 1} of the model. Copy the model again.")
    parents: Parents = []
    if len(levels) > 1:
        nodes = inner.indices("parents", "<i4", None, levels[-2].rank.n)
        ends = inner.pointers("parent_ptr", n + 1, len(nodes))
        parents = np.split(np.array(nodes), ends[1:-1])
    return Vectors(inner, n, rank, parents) if isinstance(rank, Head) else Functions(inner, n, rank, parents)


def level_of(added: AddedLabels, levels: Sequence[Level]) -> Level:
    """A level that ranks the added labels below the nodes that the member's last level reads."""
    last, rank = levels[-1], added.rank(levels[-1].rank)
    shortlist: Any = _hung(added.parents, levels[-2].rank.n) if len(levels) > 1 else Everything(rank.n)
    return replace(last, shortlist=shortlist, rank=rank)


def without(level: Level, columns: Ints) -> Level:
    """A last level that never returns some of its labels; what it says of the others is the same."""
    if not isinstance(level.rank, Linear):
        raise ModelError("it learns labels of a model that cannot. The model is damaged; copy it again.")
    return replace(level, rank=level.rank.without(columns))


def _hung(parents: Parents, above: int) -> Descend:
    """Children of each node above; a label may have several parents."""
    child = np.repeat(np.arange(len(parents), dtype=np.int32), [len(nodes) for nodes in parents])
    parent = np.concatenate(parents)
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(parent, minlength=above))])
    return Descend(indptr, child[np.lexsort((child, parent))])
