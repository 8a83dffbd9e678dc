"""A logistic model: log odds of each source's score, which sources returned the label, and the label's frequency.

    logit = bias + sum_s weight_s map_s(score_s) + sum_s found_s [returned by s] + frequency log(1 + n)

`map_s` is a rising, piecewise linear function: the log odds of a hit at that score. Weights are never negative, so a
higher score of any source never lowers a label.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from treetop.core.abilities import AddsUp
from treetop.core.errors import ModelError
from treetop.core.part_checks import DAMAGED, floats
from treetop.core.store import Part
from treetop.core.types import Floats
from treetop.predict.fuse.pairs import Pairs
from treetop.predict.fuse.rarity import PLAIN, Rarity


@dataclass(frozen=True, eq=False)
class Logistic(AddsUp):
    """`knots` (2, sources, length): scores and log odds of the maps, both rising; `weight` [maps, found, others]."""

    kind: ClassVar[str] = "fusion.logistic.1"

    knots: Floats
    weight: Floats
    rarity: Rarity = PLAIN

    @property
    def n_sources(self) -> int:
        return int(self.knots.shape[1])

    def logits(self, pairs: Pairs, counts: NDArray[np.integer]) -> Floats:
        """(pairs,) log odds that a label is right, given how often each occurs in training."""
        return inputs(pairs, self.knots, counts) @ self.weight

    def parts(self, pairs: Pairs, counts: NDArray[np.integer]) -> Floats:
        """(pairs, sources + 1) of each source its map and whether it returned the label; then frequency and bias."""
        n, added = self.n_sources, inputs(pairs, self.knots, counts) * self.weight
        return np.column_stack([added[:, :n] + added[:, n : 2 * n], added[:, 2 * n :].sum(1)])

    def to_part(self) -> Part:
        return Part(self.kind, self.rarity.to_config(), {"knots": self.knots, "weight": self.weight})

    @classmethod
    def from_part(cls, part: Part) -> Logistic:
        knots = floats(part, "knots", 2, None, None)
        weight = floats(part, "weight", 2 * knots.shape[1] + 2)
        if knots.size == 0 or (np.diff(knots, axis=2) < 0).any() or (weight[: knots.shape[1]] < 0).any():
            raise ModelError(f"{part.kind}: scores would fall where a source's score rises. {DAMAGED}")
        return cls(knots, weight, Rarity.from_part(part))


def inputs(pairs: Pairs, knots: Floats, counts: NDArray[np.integer]) -> Floats:
    """(pairs, 2 sources + 2) what the weights are of."""
    maps: list[Any] = [np.interp(pairs.score[:, s], x, y) for s, (x, y) in enumerate(zip(*knots, strict=True))]
    columns = [*maps, *pairs.found.T, np.log1p(counts[pairs.ids]), np.ones(len(pairs))]
    return np.column_stack(columns).astype(np.float32)
