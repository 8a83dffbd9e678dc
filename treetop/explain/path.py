"""Through which nodes of the tree a label was reached, with the margins and scores that led there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from treetop.core.abilities import Gradient, HasGradient, HasParents
from treetop.core.errors import ModelError
from treetop.core.types import Candidates, Floats, Level, View

Key = tuple[int, int]  # a level (its `id`) and a node of it
Margin = tuple[Gradient | None, float | None, str]  # what it is made of, the margin, what it reads


@dataclass(frozen=True, eq=False)
class Pace:
    """One level on the way to a label: the node, its margin, own and combined score, and what the margin is made of."""

    level: int
    node: int
    margin: float | None
    own: float
    score: float
    key: Key
    gradient: Gradient | None  # None: the rank does not tell
    reads: str


def ways_to(levels: Sequence[Level], label: int) -> list[list[int]]:
    """Nodes from the first level down to a label; several ways where it has several parents."""
    ways = [[label]]
    for level in reversed(levels[1:]):
        shortlist = level.shortlist
        ways = [
            [parent, *way]
            for way in ways
            for parent in (shortlist.parents_of(way[0]) if isinstance(shortlist, HasParents) else [0])
        ]
    return ways


def walk(levels: Sequence[Level], views: Mapping[str, View], label: int, known: dict[Key, Margin]) -> list[Pace]:
    """The paces to a label for a batch of one text; scores are joined exactly as prediction joins them.

    Of several ways the one with the best score counts. `known` keeps the margins of nodes that were passed.
    """
    ways = ways_to(levels, label)
    if not ways:
        raise ModelError(f"explain: no node lies above label {label}. The model is damaged; copy it again.")
    return max((_paces(levels, views, way, known) for way in ways), key=lambda paces: paces[-1].score)


def _margin(level: Level, view: View, node: int) -> Margin:
    rank = level.rank
    if not isinstance(rank, HasGradient):
        return None, None, "unknown"
    gradient = rank.gradient(view, node)
    return gradient, gradient.bias + _value(gradient, view), rank.reads


def _value(gradient: Gradient, view: View) -> float:
    """What a linear function has at a view of one text, without its bias."""
    weights, columns = gradient.weights.astype(np.float64), gradient.columns
    if gradient.tokens:
        return float(weights.sum())
    if isinstance(view, np.ndarray):
        return float((view[0] if columns is None else view[0, columns]).astype(np.float64) @ weights)
    x = view.data.astype(np.float64)
    if columns is None:
        return float(x @ weights[view.indices])
    known = dict(zip(columns.tolist(), weights.tolist(), strict=True))
    return float(x @ np.array([known.get(column, 0.0) for column in view.indices.tolist()]))


def _paces(
    levels: Sequence[Level], views: Mapping[str, View], way: Sequence[int], known: dict[Key, Margin]
) -> list[Pace]:
    paces: list[Pace] = []
    for t, (level, node) in enumerate(zip(levels, way, strict=True)):
        key = id(level), node
        if key not in known:
            known[key] = _margin(level, views[level.view], node)
        gradient, margin, reads = known[key]
        if gradient is not None and gradient.copied and paces:  # a node that passes its parent on
            paces.append(replace(paces[-1], level=t, node=node, key=key, gradient=gradient))
            continue
        above = _above(paces)
        own, score = _unknown(level, views, node, above) if margin is None else _joined(level, margin, above)
        if not np.isfinite([0.0 if margin is None else margin, own, score]).all():
            raise ModelError(
                f"explain: {level.rank.kind} has a weight or score that is NaN or infinite. Copy the model again."
            )
        paces.append(Pace(t, node, margin, own, score, key, gradient, reads))
    return paces


def _joined(level: Level, margin: float, above: Candidates) -> tuple[float, float]:
    own: Floats = level.join.own(np.array([margin], np.float32))
    return float(own[0]), float(level.join.score(own, above)[0])


def _unknown(level: Level, views: Mapping[str, View], node: int, above: Candidates) -> tuple[float, float]:
    """The scores of a node whose rank does not say what its margins are made of."""
    named = Candidates(
        1, level.rank.n, np.array([0, 1]), np.array([node], np.int32), above.parent_own, above.parent_score
    )
    found = level.rank.rank(views[level.view], named, level.join, 1)
    return (float(found.own[0]), float(found.score[0])) if len(found.ids) else (0.0, 0.0)


def _above(paces: Sequence[Pace]) -> Candidates:
    if not paces:
        return Candidates.all(1, 1)
    last = paces[-1]
    return Candidates(
        1, 1, parent_own=np.array([last.own], np.float32), parent_score=np.array([last.score], np.float32)
    )
