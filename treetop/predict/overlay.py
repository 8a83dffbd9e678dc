"""Labels as they are today over a model as it was trained: some added behind, some learned again, retired or merged.

The trained levels answer as ever, bit for bit; only what they answer is looked through afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from treetop.core.dataset import RETIRED
from treetop.core.types import Level, Ranking, View
from treetop.predict.beam import descend, nodes_above, step
from treetop.predict.blend import KEEP, Blend, blended

SLACK = 16  # labels asked for beyond `k` at first, where some are retired


@dataclass(frozen=True, eq=False)
class Overlay:
    """`extra` ranks labels that were added or learned again (numbered from 0) below the nodes of each last level."""

    n: int  # labels of the trained model; added ones follow
    retired: NDArray[np.bool_]  # (labels,)
    extra: Sequence[Level] = ()  # one for each member, or none
    target: NDArray[np.int32] | None = None  # (labels,) the label that gets a label's score; None: its own, always
    columns: NDArray[np.int32] | None = None  # (extra,) the label of each, -1: outdated; None: those behind `n`
    base: Sequence[Level] = ()  # last levels without labels that were learned again; none: the members' own

    @classmethod
    def hiding(cls, status: NDArray[np.uint8]) -> Overlay | None:
        """What keeps retired labels back; nothing where there are none."""
        retired = status == RETIRED
        return cls(len(status), retired) if retired.any() else None

    @property
    def n_retired(self) -> int:
        return int(self.retired.sum())

    def sources(self, column: int) -> list[int]:
        """The labels whose scores this label gets: its own, and those merged into it."""
        return [column] if self.target is None else np.flatnonzero(self.target == column).tolist()

    def place(self, column: int) -> int | None:
        """Where a label stands in `extra`; None: the trained level ranks it."""
        if self.columns is None:
            return column - self.n if column >= self.n else None
        places = np.flatnonzero(self.columns == column)
        return int(places[-1]) if len(places) else None

    def of_member(self, m: int) -> Overlay:
        """The same for one member alone."""
        return replace(self, extra=self.extra[m : m + 1], base=self.base[m : m + 1])

    def rank(
        self,
        members: Sequence[Sequence[Level]],
        blend: Blend,
        views: Mapping[str, View],
        k: int,
        weights: Sequence[float] = (),
    ) -> Ranking:
        """The best `k` labels that are not retired.

        Looks deeper as long as a retired label stands where an active one could: the result does not depend on how
        deep the first look was, nor on the other documents.
        """
        return self._settled(members, blend, views, k, weights)[1].top(k)

    def lists(
        self, members: Sequence[Sequence[Level]], blend: Blend, views: Mapping[str, View], k: int,
        weights: Sequence[float] = (),
    ) -> tuple[list[Ranking], list[Ranking]]:  # fmt: skip
        """What `rank` is made of: each member's ranking of trained labels, and of `extra` ones (numbered from 0)."""
        found = self._settled(members, blend, views, k, weights)[0]
        return found[: len(members)], found[len(members) :]

    def _settled(
        self, members: Sequence[Sequence[Level]], blend: Blend, views: Mapping[str, View], k: int,
        weights: Sequence[float],
    ) -> tuple[list[Ranking], Ranking]:  # fmt: skip
        first = k if len(members) == 1 else max(k, KEEP)  # as deep as without any retired label
        most = first + self.n_retired
        want = min(most, 2 * k + SLACK) if len(members) == 1 else first
        above = [nodes_above(levels, views) for levels in members] if self.extra else []

        def mix(lists: Sequence[Ranking]) -> Ranking:
            return blended(lists, blend, want * len(members), weights)

        while True:
            lists, joined = self._look(members, mix, views, above, want)
            found = self._shown(joined)
            if want >= most or not self._short(lists, found, k, want, ties=len(members) == 1):
                return lists, found
            want = min(2 * want, most)

    def _look(
        self,
        members: Sequence[Sequence[Level]],
        mix: Callable[[Sequence[Ranking]], Ranking],
        views: Mapping[str, View],
        above: Sequence[Ranking | None],
        want: int,
    ) -> tuple[list[Ranking], Ranking]:
        """(the best `want` of each member, trained labels first and `extra` ones behind; all of them blended)"""
        if not self.extra:
            base = [descend(levels, views, want) for levels in members]
            return base, mix(base)
        last = self.base or [levels[-1] for levels in members]
        base = [step(level, views, up, want) for level, up in zip(last, above, strict=True)]
        new = [step(level, views, up, want) for level, up in zip(self.extra, above, strict=True)]
        return [*base, *new], _joined(mix(base), self._as_labels(mix(new)))

    def _as_labels(self, ranking: Ranking) -> Ranking:
        """What `extra` ranks, named by columns."""
        if self.columns is None:
            return Ranking(ranking.indptr, ranking.ids + np.int32(self.n), ranking.score, ranking.own)
        ranking = ranking.where(self.columns[ranking.ids] >= 0)
        return Ranking(ranking.indptr, self.columns[ranking.ids], ranking.score, ranking.own)

    def _shown(self, ranking: Ranking) -> Ranking:
        """Scores of merged labels at their targets, the best of each; retired labels left out."""
        if self.target is not None:
            ids = self.target[ranking.ids]
            ranking = Ranking.sorted(ranking.indptr, ids, ranking.score, ranking.own).distinct()
        return ranking.where(~self.retired[ranking.ids])

    def _short(self, lists: Sequence[Ranking], found: Ranking, k: int, want: int, *, ties: bool) -> bool:
        """Whether labels further down could belong among the best `k` of some document."""
        full = [np.diff(part.indptr) >= want for part in lists]
        few = np.diff(found.indptr) < k
        if ties and self.target is not None:  # one behind the end of a list may belong to a label with a lower column
            last = np.full(len(found), -np.inf, np.float32)
            for part, cut in zip(lists, full, strict=True):
                last[cut] = np.maximum(last[cut], part.score[part.indptr[1:][cut] - 1])
            enough = np.flatnonzero(~few)
            few[enough] = found.score[found.indptr[enough] + k - 1] <= last[enough]
        return bool((few & np.any(full, axis=0)).any())


def _joined(one: Ranking, other: Ranking) -> Ranking:
    """Rankings of the same documents over different labels as one."""
    parts = (one, other)
    rows = np.concatenate([np.repeat(np.arange(len(part)), np.diff(part.indptr)) for part in parts])
    order = np.argsort(rows, kind="stable")
    ids, score, own = (np.concatenate([getattr(p, name) for p in parts])[order] for name in ("ids", "score", "own"))
    return Ranking.sorted(one.indptr + other.indptr, ids, score, own)
