"""Several members become one ranking; a label that a member did not return counts 0 there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from treetop.core.errors import ConfigError
from treetop.core.types import Join, Ranking

Blend = Literal["average", "rank_average", "softmax_average"]
KEEP = 100  # labels each member returns at least, so that "absent" seldom hides a good score


def check_blend(blend: Blend, joins: Sequence[Join]) -> None:
    """Refuse averages of scores where "absent counts 0" would rank a missing label above a bad one."""
    for join in joins:
        if blend == "average" and (join.transform == "noop" or join.adds):
            raise ConfigError(
                f"blend: 'average' needs scores from 0 to 1, but a member's last level gives '{join.transform}'. "
                "Use 'rank_average' or 'softmax_average', or a transform such as 'sigmoid'."
            )


def blended(parts: Sequence[Ranking], blend: Blend, k: int) -> Ranking:
    """The best `k` labels after averaging the members' scores."""
    if len(parts) == 1:
        return parts[0].top(k)
    n = len(parts[0])
    rows = np.concatenate([np.repeat(np.arange(n), np.diff(part.indptr)) for part in parts])
    ids = np.concatenate([part.ids for part in parts])
    scores = np.concatenate([_weights(part, blend) for part in parts]) / len(parts)
    width = int(ids.max(initial=0)) + 1
    keys, place = np.unique(rows * width + ids, return_inverse=True)
    total = np.bincount(place, weights=scores, minlength=len(keys)).astype(np.float32)
    indptr = np.searchsorted(keys, np.arange(n + 1, dtype=np.int64) * width)
    return Ranking.sorted(indptr, (keys % width).astype(np.int32), total).top(k)


def _weights(part: Ranking, blend: Blend) -> NDArray[np.float64]:
    lengths = np.diff(part.indptr)
    if blend == "average":
        return part.score.astype(np.float64)
    if blend == "rank_average":  # rank r (from 1) of a list counts longest - r + 1
        place = np.arange(len(part.ids)) - np.repeat(part.indptr[:-1], lengths)
        return np.asarray(lengths.max(initial=0) - place, np.float64)
    first = np.repeat(part.score[np.minimum(part.indptr[:-1], len(part.score) - 1)] if len(part.score) else [], lengths)
    grown = np.exp(part.score.astype(np.float64) - first)
    sums = np.add.reduceat(np.append(grown, 0.0), part.indptr[:-1]) if len(lengths) else grown
    return np.asarray(grown / np.repeat(sums, lengths))
