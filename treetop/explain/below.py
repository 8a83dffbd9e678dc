"""What lies below a node of a tree: its most frequent labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from treetop.core.abilities import HasParents
from treetop.core.types import Level


def labels_below(levels: Sequence[Level], t: int, node: int) -> NDArray[np.int64] | None:
    """The labels below a node of level `t`; None where a level further down knows no parents."""
    nodes = np.array([node], np.int64)
    for level in levels[t + 1 :]:
        if not isinstance(level.shortlist, HasParents):
            return None
        nodes = level.shortlist.below(nodes)
    return nodes


def most_frequent(labels: NDArray[np.int64], counts: NDArray[np.integer], k: int) -> list[int]:
    """The `k` labels with most training texts, ties by column."""
    return labels[np.lexsort((labels, -counts[labels]))[:k]].tolist()  # type: ignore[no-any-return]
