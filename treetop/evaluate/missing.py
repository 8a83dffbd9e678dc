"""Labels that are likely right and missing in the data: wrong predictions of a high probability, for review."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from treetop.evaluate.match import Matches

LIKELY = 0.5  # lowest probability
PER_LABEL = 5  # of one label, so that no label fills the list
TRIED = 100  # wrong predictions to examine for each one to list


class Missing(NamedTuple):
    """A document and a label it does not have."""

    row: int
    column: int
    probability: float


def missing_labels(matches: Matches, n: int = 50) -> list[Missing]:
    """Up to `n`, the most probable first, among equals those of rare labels: they say more."""
    if matches.probability is None:
        return []
    wrong = (matches.top >= 0) & ~matches.hits & (matches.probability >= LIKELY)
    rows, places = np.nonzero(wrong)
    columns, p = matches.top[rows, places], matches.probability[rows, places]
    chosen: list[Missing] = []
    seen: dict[int, int] = {}
    for i in np.lexsort((rows, matches.counts[columns], -p))[: TRIED * n].tolist():
        column = int(columns[i])
        if seen.get(column, 0) < PER_LABEL:
            seen[column] = seen.get(column, 0) + 1
            chosen.append(Missing(int(rows[i]), column, float(p[i])))
            if len(chosen) == n:
                break
    return chosen


def likely_missing(matches: Matches, at_least: float) -> int:
    """Wrong predictions of at least this probability."""
    if matches.probability is None:
        return 0
    return int(((matches.top >= 0) & ~matches.hits & (matches.probability >= at_least)).sum())
