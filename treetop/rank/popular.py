"""Labels by how often they occur in training: what any real method must beat."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from treetop.core.abilities import Gradient, HasGradient
from treetop.core.part_checks import distinct, floats, whole
from treetop.core.store import Part
from treetop.core.types import Candidates, Floats, Join, Ranking, View


class Popular(HasGradient):
    """The same ranking for every text; the score is the share of training texts that carry the label."""

    kind: ClassVar[str] = "rank.popular.1"
    reads: ClassVar[str] = "count"

    def __init__(self, n: int, order: NDArray[np.int32], share: Floats) -> None:
        self.n, self.order, self.share = n, order, share

    @classmethod
    def fit(cls, counts: NDArray[np.int64], n_documents: int) -> Popular:
        order = np.argsort(-counts, kind="stable").astype(np.int32)
        order = order[counts[order] > 0]
        return cls(len(counts), order, (counts[order] / max(n_documents, 1)).astype(np.float32))

    def rank(self, view: View, candidates: Candidates, join: Join, keep: int) -> Ranking:
        n, width = candidates.n_documents, min(keep, len(self.order))
        score = join.own(np.tile(self.share[:width], n))
        indptr = np.arange(n + 1, dtype=np.int64) * width
        return Ranking(indptr, np.tile(self.order[:width], n), score, score)

    def gradient(self, view: View, node: int) -> Gradient:
        """The share of the label, whatever the text."""
        share = self.share[self.order == node]
        return Gradient(np.zeros(0, np.float32), float(share.sum()), np.zeros(0, np.int64))

    def to_part(self) -> Part:
        return Part(self.kind, {"n": self.n}, {"order": self.order, "share": self.share})

    @classmethod
    def from_part(cls, part: Part) -> Any:
        n = whole(part, "n", 1)
        order = distinct(part, "order", None, n)
        return cls(n, order, floats(part, "share", len(order)))
