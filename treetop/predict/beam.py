"""The one loop of prediction: shortlist, rank, keep the best `beam`, go down."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from treetop.core.abilities import RanksOnDevice, RanksSiblings, WalksAllLevels
from treetop.core.executor import executor
from treetop.core.executor.threads import blocks
from treetop.core.types import DeviceView, Level, Ranking, View

ROWS = 4096  # documents that are worth a task of a cluster


def one_ahead(batches: Iterable[Mapping[str, View]]) -> Iterator[Mapping[str, View]]:
    """The same batches, each begun before the last one is answered: texts for a GPU are tokenised meanwhile."""
    last: Mapping[str, View] | None = None
    for views in batches:
        if last is not None:
            yield last
        last = views
    if last is not None:
        yield last


def descend(levels: Sequence[Level], views: Mapping[str, View], k: int) -> Ranking:
    """The best `k` labels of each document of a batch, as one member sees it."""
    first = levels[0].rank
    if isinstance(first, WalksAllLevels):  # the result is the same
        whole = first.walk(levels, views[levels[0].view], k)
        if whole is not None:
            return whole
    return step(levels[-1], views, nodes_above(levels, views), k)


def descend_rows(levels: Sequence[Level], views: Mapping[str, View], k: int) -> Ranking:
    """`descend` for many documents: a document's result does not depend on those beside it, so nodes share them."""
    here, view = executor.current(), levels[0].view
    n = views[view].shape[0]
    if not here.remote or any(level.view != view for level in levels):
        return descend(levels, views, k)
    shards = [views[view][start:stop] for start, stop in blocks(n, max(ROWS, -(-n // here.pieces)))]
    return Ranking.concat(here.run(_descend_shard, shards, levels, view, k))


def _descend_shard(rows: View, levels: Sequence[Level], view: str, k: int) -> Ranking:
    return descend(levels, {view: rows}, k)


def nodes_above(levels: Sequence[Level], views: Mapping[str, View]) -> Ranking | None:
    """The nodes kept on the level above the labels; None where there is no such level."""
    above: Ranking | None = None
    for level in levels[:-1]:
        above = step(level, views, above, level.beam)
    return above


def step(level: Level, views: Mapping[str, View], above: Ranking | None, keep: int) -> Ranking:
    """One level: which nodes deserve a score, how good each is, and the best `keep`."""
    view, ranker = views[level.view], level.rank
    if isinstance(view, DeviceView) and not isinstance(ranker, RanksOnDevice):
        view = np.asarray(view)
    if above is not None and level.keep_by == "score" and isinstance(ranker, RanksSiblings):
        best = ranker.below(view, level.shortlist, above, level.join, keep)
        if best is not None:  # children need not be named one by one; the result is the same
            return best
    if level.keep_by == "score" and isinstance(ranker, RanksOnDevice):
        best = ranker.on_device(view, level.shortlist, above, level.join, keep)
        if best is not None:
            return best
    candidates = level.shortlist.candidates(view, above)
    if level.keep_by == "score":
        return level.rank.rank(view, candidates, level.join, keep)
    everything = level.rank.rank(view, candidates, level.join, candidates.n)
    kept = Ranking.sorted(everything.indptr, everything.ids, everything.own, everything.score).top(keep)
    return Ranking.sorted(kept.indptr, kept.ids, kept.own, kept.score)  # kept by own, ordered by combined score
