"""The label tree to walk through: a node, its children, names made of frequent labels.

A node's id is `level-number`; the root's is empty. Below the last inner level, children are labels, the most frequent
first. A model without a tree is a root above all its labels.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treetop.core.abilities import HasParents
from treetop.core.dataset import RETIRED, Ints
from treetop.core.errors import LabelError
from treetop.core.types import Level
from treetop.explain.below import labels_below, most_frequent
from treetop.explain.path import ways_to
from treetop.model import Model

NAMES = 3  # labels in a node's name
LONGEST = 40  # characters of each
NODE = re.compile(r"(\d{1,3})-(\d{1,9})")
ROOT = "all labels"


@dataclass(frozen=True, eq=False)
class Browser:
    """The tree of the first member that has one."""

    model: Model
    levels: Sequence[Level]  # inner levels and the labels; one level: no tree

    @classmethod
    def of(cls, model: Model) -> Browser:
        """The tree of a model."""
        for levels in model.members:
            if len(levels) > 1 and all(isinstance(level.shortlist, HasParents) for level in levels[1:]):
                return cls(model, levels)
        return cls(model, model.members[0][-1:])

    @property
    def deep(self) -> bool:
        """Whether there are nodes between the root and the labels."""
        return len(self.levels) > 1

    def children(self, node: str, offset: int, limit: int) -> dict[str, Any]:
        """A node and a page of its children."""
        level, number = self._place(node)
        if level + 1 == len(self.levels) - 1:
            labels = self._labels(level, number)
            labels = labels[np.lexsort((labels, -self.model.counts[labels]))]
            rows = [self._leaf(column) for column in labels[offset : offset + limit].tolist()]
            return {"node": self._node(level, number), "children": rows, "total": len(labels)}
        below = self._below(level, number)
        sizes = np.array([len(self._labels(level + 1, child)) for child in below.tolist()], np.int64)
        below = below[np.lexsort((below, -sizes))]
        rows = [{**self._node(level + 1, child), "leaf": False} for child in below[offset : offset + limit].tolist()]
        return {"node": self._node(level, number), "children": rows, "total": len(below)}

    def path(self, column: int) -> list[dict[str, str]]:
        """The nodes from the root to a label; none for labels added after training."""
        if not self.deep or column >= self.model.n_trained:
            return []
        way = ways_to(self.levels, column)[0]
        return [{"node": f"{t}-{node}", "name": self._name(t, node)} for t, node in enumerate(way[:-1])]

    def _place(self, node: str) -> tuple[int, int]:
        """(level, number) of a node's id; the root is on level -1."""
        if not node:
            return -1, 0
        found = NODE.fullmatch(node)
        if found is not None and node.isascii():
            level, number = int(found[1]), int(found[2])
            if level < len(self.levels) - 1 and number < self.levels[level].rank.n:
                return level, number
        raise LabelError(f"node '{node}': not in the tree of this model. Begin at the root, with no node.")

    def _below(self, level: int, number: int) -> Ints:
        if level < 0:
            return np.arange(self.levels[0].rank.n)
        shortlist = self.levels[level + 1].shortlist
        return shortlist.below(np.array([number])) if isinstance(shortlist, HasParents) else np.zeros(0, np.int64)

    def _labels(self, level: int, number: int) -> Ints:
        """Labels below a node that can be returned."""
        if level < 0:
            labels = np.arange(self.model.n_trained)
        else:
            below = labels_below(self.levels, level, number)
            labels = np.zeros(0, np.int64) if below is None else below
        return labels[self.model.labels.status[labels] != RETIRED]

    def _node(self, level: int, number: int) -> dict[str, Any]:
        id_ = "" if level < 0 else f"{level}-{number}"
        return {"id": id_, "name": self._name(level, number), "labels": len(self._labels(level, number))}

    def _name(self, level: int, number: int) -> str:
        if level < 0:
            return ROOT
        frequent = most_frequent(self._labels(level, number), self.model.counts, NAMES)
        return ", ".join(_brief(self.model.labels.names[column]) for column in frequent)

    def _leaf(self, column: int) -> dict[str, Any]:
        labels = self.model.labels
        return {
            "id": f"{len(self.levels) - 1}-{column}", "name": labels.names[column], "labels": 1, "leaf": True,
            "label": labels.ids[column],
        }  # fmt: skip


def _brief(name: str) -> str:
    """The beginning of a name that may be a whole definition."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1].rstrip()}…"
