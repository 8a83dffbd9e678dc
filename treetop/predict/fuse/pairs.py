"""What each source says of every label that at least one of them returned for a document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from treetop.core.dataset import Ints
from treetop.core.types import Floats, Ranking
from treetop.kernels.search.union import union


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
        return cls(*union([(source.indptr, source.ids, source.score) for source in sources]))

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
