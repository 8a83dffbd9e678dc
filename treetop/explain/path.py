"""Through which nodes of the tree a label was reached, with the scores that led there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treetop.core.abilities import HasContributions, HasParents
from treetop.core.errors import ConfigError, ModelError
from treetop.core.types import Candidates, Level, View


@dataclass(frozen=True)
class Step:
    """One level on the way to a label: the node, its margin, own and combined score, and what adds up to the margin."""

    level: int
    node: int
    margin: float
    own: float
    score: float
    bias: float
    columns: NDArray[np.int64]  # features of the text that have a weight here
    contributions: NDArray[np.float32]  # their parts; with the bias they sum to the margin


def nodes_to(levels: Sequence[Level], label: int) -> list[int]:
    """Nodes from the first level down to the label."""
    path = [label]
    for level in reversed(levels[1:]):
        shortlist = level.shortlist
        path.append(shortlist.parent_of(path[-1]) if isinstance(shortlist, HasParents) else 0)
    return path[::-1]


def walk(levels: Sequence[Level], views: dict[str, View] | Any, label: int) -> list[Step]:
    """The steps to a label for a batch of one text; scores are joined exactly as prediction joins them."""
    steps: list[Step] = []
    for t, (level, node) in enumerate(zip(levels, nodes_to(levels, label), strict=True)):
        rank = level.rank
        if not isinstance(rank, HasContributions):
            raise ConfigError(f"explain: {rank.kind} has no terms to show. Use a linear recipe, such as xr_linear.")
        columns, parts, bias, copied = rank.contributions(views[level.view], node)
        if copied and steps:  # a node that passes its parent on
            steps.append(Step(t, node, steps[-1].margin, steps[-1].own, steps[-1].score, 0.0, columns[:0], parts[:0]))
            continue
        margin = np.float32(bias + parts.astype(np.float64).sum())
        own = level.join.own(np.array([margin], np.float32))
        score = level.join.score(own, _above(steps))
        if not (np.isfinite(parts).all() and np.isfinite([margin, own[0], score[0]]).all()):
            raise ModelError(
                f"explain: {rank.kind} has a weight or score that is NaN or infinite. Copy the model again."
            )
        steps.append(Step(t, node, float(margin), float(own[0]), float(score[0]), float(bias), columns, parts))
    return steps


def _above(steps: Sequence[Step]) -> Candidates:
    if not steps:
        return Candidates.all(1, 1)
    last = steps[-1]
    return Candidates(
        1, 1, parent_own=np.array([last.own], np.float32), parent_score=np.array([last.score], np.float32)
    )
