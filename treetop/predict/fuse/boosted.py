"""Boosted symmetric trees over scores, gaps to the best score, which sources returned the label, and its frequency.

Monotone in every score: with all else equal a higher score of any source never lowers a label.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from treetop.core.errors import ModelError
from treetop.core.part_checks import DAMAGED
from treetop.core.store import Part
from treetop.core.tree_part import read_trees, tree_arrays
from treetop.core.types import Floats
from treetop.kernels.boosting import Trees, binned, margins
from treetop.predict.fuse.pairs import Pairs
from treetop.predict.fuse.rarity import PLAIN, Rarity

PER_SOURCE = 3  # score, gap, returned or not


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
        config = {**self.rarity.to_config(), "base": float(self.trees.base)}
        return Part(self.kind, config, tree_arrays(self.edges, self.trees))

    @classmethod
    def from_part(cls, part: Part) -> Boosted:
        edges, trees = read_trees(part)
        if len(edges) < 1 + PER_SOURCE or len(edges) % PER_SOURCE != 1:
            raise ModelError(f"{part.kind}: its trees do not fit together. {DAMAGED}")
        return cls(edges, Trees(*trees), Rarity.from_part(part))


def inputs(pairs: Pairs, counts: NDArray[np.integer]) -> Floats:
    """(pairs, 3 sources + 1) what trees look at; all but the last are monotone."""
    return np.column_stack([pairs.score, pairs.gap, pairs.found, np.log1p(counts[pairs.ids])]).astype(np.float32)
