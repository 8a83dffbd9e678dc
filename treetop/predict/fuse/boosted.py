"""Boosted symmetric trees over scores, gaps to the best score, which sources returned the label, and its frequency.

Monotone in every score: with all else equal a higher score of any source never lowers a label.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from treetop.core.errors import ModelError
from treetop.core.part_checks import DAMAGED, floats, number
from treetop.core.store import Part
from treetop.core.types import Floats
from treetop.kernels.boosting import Trees, binned, margins
from treetop.predict.fuse.pairs import Pairs
from treetop.predict.fuse.rarity import PLAIN, Rarity

PER_SOURCE = 3  # score, gap, returned or not
DEEPEST = 12


@dataclass(frozen=True, eq=False)
class Boosted:
    """`edges` (features, cuts) of the bins that `trees` look at."""

    kind: ClassVar[str] = "fusion.boosted.1"

    edges: Floats
    trees: Trees
    rarity: Rarity = PLAIN

    @property
    def n_sources(self) -> int:
        return (len(self.edges) - 1) // PER_SOURCE

    def logits(self, pairs: Pairs, counts: NDArray[np.integer]) -> Floats:
        """(pairs,) log odds that a label is right, given how often each occurs in training."""
        return margins(binned(inputs(pairs, counts), self.edges), self.trees)

    def to_part(self) -> Part:
        trees = self.trees
        config = {**self.rarity.to_config(), "base": float(trees.base)}
        arrays: dict[str, NDArray[Any]] = {
            "edges": self.edges,
            "feature": trees.feature,
            "cut": trees.cut,
            "leaf": trees.leaf,
        }
        return Part(self.kind, config, arrays)

    @classmethod
    def from_part(cls, part: Part) -> Boosted:
        edges = floats(part, "edges", None, None)
        n, cuts = edges.shape
        feature, cut = part.array("feature", "<i4", None, None), part.array("cut", "|u1", None, None)
        leaf = floats(part, "leaf", len(feature), None)
        depth = feature.shape[1]
        known = feature.size == 0 or (feature.min() >= 0 and feature.max() < n)
        sound = cut.shape == feature.shape and depth <= DEEPEST and leaf.shape[1] == 1 << depth and known
        if not sound or n < 1 + PER_SOURCE or n % PER_SOURCE != 1 or cuts > 255 or (np.diff(edges) < 0).any():
            raise ModelError(f"{part.kind}: its trees do not fit together. {DAMAGED}")
        return cls(edges, Trees(number(part, "base"), feature, cut, leaf), Rarity.from_part(part))


def inputs(pairs: Pairs, counts: NDArray[np.integer]) -> Floats:
    """(pairs, 3 sources + 1) what trees look at; all but the last are monotone."""
    return np.column_stack([pairs.score, pairs.gap, pairs.found, np.log1p(counts[pairs.ids])]).astype(np.float32)
