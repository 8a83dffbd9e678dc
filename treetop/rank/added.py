"""Vectors of labels that were added to a trained model (`assemble/edit.py`): a head whose rows never touch each other.

Rows are filled up to whole blocks, so that a label's margin has the same bits however many were added after it; and a
label may hang under several nodes of the level above.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from treetop.core.errors import ModelError
from treetop.core.types import Candidates, Floats, Join, Ranking
from treetop.rank.head import Head

BLOCK = 256


class Added(Head):
    """A head over added labels; reads the view, and where there is one the bottleneck, of the trained head."""

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
        """Each pair by itself; of a label reached on several ways the best one counts."""
        if candidates.indptr is None or candidates.ids is None:
            raise ModelError(f"{self.kind}: candidates without row pointers.")
        ends = candidates.indptr[start : start + len(h) + 1]
        here = slice(ends[0], ends[-1])
        ids, rows = candidates.ids[here], np.repeat(np.arange(len(h)), np.diff(ends))
        margin = np.empty(len(ids), np.float32)
        for at in range(0, len(ids), BLOCK):
            part = slice(at, at + BLOCK)
            margin[part] = (self.weight[ids[part]] * h[rows[part]]).sum(1) + self.bias[ids[part]]
        own = join.own(margin)
        held = {
            name: None if value is None else value[here]
            for name, value in (("parent_own", candidates.parent_own), ("parent_score", candidates.parent_score))
        }
        score = join.score(own, Candidates(len(h), self.n, None, ids, **held))
        return Ranking.sorted(ends - ends[0], ids, score, own).distinct().top(keep)
