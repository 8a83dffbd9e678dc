"""Vectors of labels that were added to a trained model (`edit/vectors.py`): a head whose rows are independent.

Rows are filled up to whole blocks, so that a label's margin has the same bits however many were added after it; and a
label may hang under several nodes of the level above.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from treetop.core.types import Candidates, Floats, Join, Ranking
from treetop.rank.head import Head

BLOCK = 256


class Added(Head):
    """A head over added labels; reads the view (and bottleneck, if any) of the trained head."""

    kind: ClassVar[str] = "rank.added.1"
    block: ClassVar[int] = BLOCK
    share: ClassVar[int] = BLOCK

    def __init__(self, weight: Floats, bias: Floats, trained: Head) -> None:
        more = -len(weight) % BLOCK
        super().__init__(
            np.concatenate([weight, np.zeros((more, weight.shape[1]), np.float32)]),
            np.concatenate([bias, np.full(more, -np.inf, np.float32)]),  # never returned
            squeeze=trained.squeeze,
            squeeze_bias=trained.squeeze_bias,
        )

    def _gathered(self, h: Floats, candidates: Candidates, start: int, join: Join, keep: int) -> Ranking:
        """Of a label reached on several ways the best one counts."""
        return super()._gathered(h, candidates, start, join, self.n * len(h)).distinct().top(keep)
