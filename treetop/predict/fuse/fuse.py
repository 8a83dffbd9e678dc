"""Rankings of several sources become one: by learnt log odds, rare labels lifted as the model was asked to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from treetop.core.store import Part
from treetop.core.types import Floats, Ranking
from treetop.predict.fuse.pairs import Pairs
from treetop.predict.fuse.rarity import Rarity


class Fusion(Protocol):
    """A learnt way to join the scores of several sources."""

    kind: ClassVar[str]
    rarity: Rarity

    @property
    def n_sources(self) -> int: ...
    def logits(self, pairs: Pairs, counts: NDArray[np.integer]) -> Floats: ...
    def to_part(self) -> Part: ...


def fuse(sources: Sequence[Ranking], fusion: Fusion, counts: NDArray[np.integer], k: int) -> Ranking:
    """The best `k` labels of each document; `own` is the probability before rare labels are lifted."""
    pairs = Pairs.of(sources)
    own = probability(fusion.logits(pairs, counts))
    lifted = own * fusion.rarity.factors(counts)[pairs.ids]
    return Ranking.sorted(pairs.indptr, pairs.ids, lifted, own).top(k)


def probability(logits: Floats) -> Floats:
    """The logistic function."""
    made: Floats = np.exp(-np.logaddexp(np.float32(0), -logits)).astype(np.float32)
    return made
