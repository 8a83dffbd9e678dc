"""Linear functions of labels that were added to a trained model by examples (`edit/examples.py`).

Each function is a chunk of its own, so that a label's margin has the same bits however many were added after it; and a
label may hang under several nodes of the level above.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np

from treetop.core.types import Candidates, Join, Ranking, View
from treetop.kernels.tree import chunks
from treetop.rank.linear import Linear


class AddedLinear(Linear):
    """Linear functions over added labels; reads the view of the trained ones."""

    kind: ClassVar[str] = "rank.added_linear.1"

    @classmethod
    def joined(cls, ranks: Sequence[Linear]) -> Self:
        """The functions of several additions behind each other."""
        return cls(chunks.joined([rank.weights for rank in ranks]), ranks[0].n_features)

    def rank(self, view: View, candidates: Candidates, join: Join, keep: int) -> Ranking:
        """Of a label reached on several ways the best one counts."""
        if candidates.ids is None or candidates.indptr is None:
            return super().rank(view, candidates, join, keep)
        longest = int(np.diff(candidates.indptr).max(initial=0))
        return self.rank_given(view, candidates, join, max(longest, 1)).distinct().top(keep)
