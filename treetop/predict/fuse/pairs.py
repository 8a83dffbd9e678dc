"""What each source says of every label that at least one of them returned for a document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from treetop.core.dataset import Ints
from treetop.core.types import Floats, Ranking


@dataclass(frozen=True, eq=False)
class Pairs:
    """(document, label) pairs, grouped by document, labels ascending.

    A label that a source did not return has the lowest score that source returned for the document (0 where it
    returned nothing).
    """

    indptr: Ints  # (documents + 1,)
    ids: NDArray[np.int32]
    score: Floats  # (pairs, sources)
    found: NDArray[np.bool_]  # (pairs, sources) whether the source returned the label
    best: Floats  # (documents, sources) the highest score of each source

    @classmethod
    def of(cls, sources: Sequence[Ranking]) -> Pairs:
        """The union of rankings of the same documents."""
        n = len(sources[0])
        width = 1 + max(int(source.ids.max(initial=0)) for source in sources)
        keys = [_rows(source) * width + source.ids for source in sources]
        pairs = np.unique(np.concatenate(keys))
        rows = pairs // width
        score = np.empty((len(pairs), len(sources)), np.float32)
        found = np.zeros(score.shape, bool)
        best = np.zeros((n, len(sources)), np.float32)
        for s, (source, key) in enumerate(zip(sources, keys, strict=True)):
            some = np.flatnonzero(np.diff(source.indptr))  # rankings are sorted: first the best, last the lowest
            lowest = np.zeros(n, np.float32)
            best[some, s] = source.score[source.indptr[some]]
            lowest[some] = source.score[source.indptr[some + 1] - 1]
            score[:, s] = lowest[rows]
            place = np.searchsorted(pairs, key)
            score[place, s], found[place, s] = source.score, True
        indptr = np.searchsorted(rows, np.arange(n + 1))
        return cls(indptr, (pairs % width).astype(np.int32), score, found, best)

    def without(self, source: int, lowest: Floats) -> Pairs:
        """As if a source had returned none of the labels; `lowest` (documents,) is what they count there."""
        score, found = self.score.copy(), self.found.copy()
        score[:, source], found[:, source] = lowest[self.rows], False
        return replace(self, score=score, found=found)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def rows(self) -> Ints:
        """(pairs,) the document of each."""
        made: Ints = np.repeat(np.arange(len(self.indptr) - 1, dtype=np.int64), np.diff(self.indptr))
        return made

    @property
    def gap(self) -> Floats:
        """(pairs, sources) how far a label lies below the best one of its document; 0 for that one."""
        made: Floats = self.score - self.best[self.rows]
        return made


def _rows(ranking: Ranking) -> Ints:
    made: Ints = np.repeat(np.arange(len(ranking), dtype=np.int64), np.diff(ranking.indptr))
    return made
