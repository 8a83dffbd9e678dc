"""Join the rankings of several sources into one by learned log odds; rare labels are lifted as the aim asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from treetop.core import registry
from treetop.core.abilities import AddsUp
from treetop.core.errors import ModelError
from treetop.core.part_checks import DAMAGED
from treetop.core.store import Part
from treetop.core.types import Floats, Join, Ranking
from treetop.kernels.search.union import best_of_rows
from treetop.predict.blend import Blend, blended, check_blend, proportions
from treetop.predict.fuse.pairs import Pairs
from treetop.predict.fuse.rarity import Rarity

DEPTH = 100  # labels each source returns; a label beyond them counts as the last of them


class Scorer(Protocol):
    """A learned fusion of the scores of several sources."""

    kind: ClassVar[str]

    @property
    def rarity(self) -> Rarity: ...
    @property
    def n_sources(self) -> int: ...
    def logits(self, pairs: Pairs, counts: NDArray[np.integer]) -> Floats: ...
    def to_part(self) -> Part: ...


class Told(NamedTuple):
    """The log odds of a label in the parts that sources have in them."""

    total: float
    parts: list[float]  # by source
    base: float  # without any source
    lift: float  # what the probability is multiplied by
    exact: bool  # base and parts sum to the total; False: a part is the difference if the source had not returned it


@dataclass(frozen=True, eq=False)
class Fusion:
    """A scorer over sources, each a number of members (in order) and how their scores are averaged."""

    kind: ClassVar[str] = "fusion.sources.1"

    scorer: Scorer
    sources: tuple[tuple[int, Blend], ...]

    def check(self, joins: Sequence[Join]) -> None:
        """Refuse members that are not those of the sources; `joins` are those of their last levels."""
        if sum(n for n, _ in self.sources) != len(joins) or len(self.sources) != self.scorer.n_sources:
            raise ModelError(f"fusion: {len(self.sources)} sources do not fit the {len(joins)} members. {DAMAGED}")
        start = 0
        for n, how in self.sources:
            check_blend(how, joins[start : start + n] if n > 1 else [])
            start += n

    def lists(self, members: Sequence[Ranking], weights: Sequence[float]) -> list[Ranking]:
        """The ranking of each source from those of its members."""
        shares, result, start = proportions(weights, len(members)), [], 0
        for n, how in self.sources:
            span = slice(start, start + n)
            result.append(blended(members[span], how, DEPTH, shares[span]))
            start += n
        return result

    def rank(
        self, members: Sequence[Ranking], weights: Sequence[float], counts: NDArray[np.integer], k: int
    ) -> Ranking:
        """The best `k` labels of each document; `own` is the probability before rare labels are lifted."""
        pairs = Pairs.of(self.lists(members, weights))
        own = probability(self.scorer.logits(pairs, counts))
        lifted = self.scorer.rarity.lifted(own, pairs.indptr, pairs.ids, counts)
        return Ranking(*best_of_rows(pairs.indptr, pairs.ids, lifted, own, k))

    def told(self, lists: Sequence[Ranking], counts: NDArray[np.integer], label: int) -> Told:
        """How the sources' rankings of a single document become the score of a label that one of them returned."""
        pairs = Pairs.of(lists)
        row = int(np.flatnonzero(pairs.ids == label)[0])
        logits, rarity = self.scorer.logits(pairs, counts), self.scorer.rarity
        total = float(logits[row])
        first = rarity.keep_first and logits[row] == logits.max()
        lift = 1.0 if first else float(rarity.factors(counts)[label])
        if isinstance(self.scorer, AddsUp):
            *parts, base = self.scorer.parts(pairs, counts)[row].tolist()
            return Told(total, parts, base, lift, exact=True)
        parts, nothing = [], pairs
        for s, source in enumerate(lists):
            lowest = np.array([source.score[-1] if len(source.score) else 0.0], np.float32)
            parts.append(total - float(self.scorer.logits(pairs.without(s, lowest), counts)[row]))
            nothing = nothing.without(s, lowest)
        return Told(total, parts, float(self.scorer.logits(nothing, counts)[row]), lift, exact=False)

    def to_part(self) -> Part:
        return Part(
            self.kind, {"sources": [list(source) for source in self.sources]}, {}, {"scorer": self.scorer.to_part()}
        )

    @classmethod
    def from_part(cls, part: Part) -> Fusion:
        sources: list[Any] = part.setting("sources", list)
        for source in sources:
            sound = isinstance(source, list) and len(source) == 2 and type(source[0]) is int and source[0] >= 1
            if not sound or source[1] not in get_args(Blend):
                raise ModelError(f"{part.kind}: {source!r:.60} is not a source. {DAMAGED}")
        scorer = registry.restore(part.parts["scorer"], "fusion")
        return cls(scorer, tuple((n, how) for n, how in sources))


def probability(logits: Floats) -> Floats:
    """The logistic function."""
    result: Floats = np.exp(-np.logaddexp(np.float32(0), -logits)).astype(np.float32)
    return result
