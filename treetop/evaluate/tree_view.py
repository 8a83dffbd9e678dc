"""The label tree of a model with what it misses: which regions of labels are large, and which are weak."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treetop.core.abilities import HasParents
from treetop.core.dataset import Ints
from treetop.core.types import Level
from treetop.evaluate.match import DEPTH, Matches

WIDTHS = (16, 5, 3)  # nodes shown on each level, below each node of the one above
LABELS = 5  # named in a node


@dataclass(frozen=True)
class Node:
    """A node of the tree: its labels, and what was found of them."""

    labels: int
    true: int  # occurrences of its labels in the data
    found: int  # of them, among the first `DEPTH`
    frequent: tuple[int, ...]  # columns of its most frequent labels
    children: tuple[Node, ...]  # the worst, by occurrences that were not found
    hidden: int  # children that are not shown


@dataclass(frozen=True)
class TreeView:
    """Nodes on each level from the root to the labels, and the first level's worst nodes."""

    sizes: tuple[int, ...]
    nodes: tuple[Node, ...]

    @classmethod
    def of(cls, levels: Sequence[Level], matches: Matches) -> TreeView | None:
        """The tree of one member; None if its levels are not a tree."""
        below = [level.shortlist for level in levels[1:]]
        parents = [_parents(shortlist) for shortlist in below if isinstance(shortlist, HasParents)]
        if not below or len(parents) < len(below):
            return None
        n = len(parents[-1])  # labels that were trained; those added later are in no node
        nodes = [np.arange(n, dtype=np.int64)]  # of each label, from the last level to the first
        for parent in reversed(parents):
            nodes.insert(0, parent[nodes[0]])
        builder = _Builder(nodes[:-1], matches.counts[:n], matches.positives[:n], matches.correct(DEPTH)[:n])
        sizes = tuple(level.rank.n for level in levels)
        return cls(sizes, builder.worst(0, np.arange(n))[0])


def _parents(shortlist: HasParents) -> Ints:
    parent = np.empty(len(shortlist.children), np.int64)
    parent[shortlist.children] = np.repeat(np.arange(shortlist.n_parents), np.diff(shortlist.indptr))
    return parent


@dataclass(frozen=True)
class _Builder:
    nodes: Sequence[Ints]  # of each level above the labels: the node of every label
    counts: Ints
    true: Ints
    found: Ints

    def worst(self, level: int, labels: Ints) -> tuple[tuple[Node, ...], int]:
        """The nodes with most occurrences not found among these labels' nodes, and how many others there are."""
        if level >= min(len(self.nodes), len(WIDTHS)):
            return (), 0
        ids, inside = np.unique(self.nodes[level][labels], return_inverse=True)
        size = np.bincount(inside)
        missed = np.bincount(inside, (self.true - self.found)[labels])
        shown = np.lexsort((ids, -size, -missed))[: WIDTHS[level]]
        order = np.argsort(inside, kind="stable")
        ends = np.cumsum(size)
        made = tuple(self._node(level, labels[order[ends[i] - size[i] : ends[i]]]) for i in shown.tolist())
        return made, len(ids) - len(made)

    def _node(self, level: int, labels: NDArray[np.int64]) -> Node:
        frequent = labels[np.lexsort((labels, -self.counts[labels]))[:LABELS]]
        children, hidden = self.worst(level + 1, labels)
        true, found = int(self.true[labels].sum()), int(self.found[labels].sum())
        return Node(len(labels), true, found, tuple(frequent.tolist()), children, hidden)
