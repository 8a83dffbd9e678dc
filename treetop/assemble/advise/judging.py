"""Which documents judge trials, and which of the others are sampled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from treetop.core.dataset import Dataset, Ints
from treetop.data.split import holdout

SEED = 2 * 10**9  # added to a run's seed: other documents than those that `fit` holds out
FEW = 2000  # documents below which several hold-outs judge in turn
ROUNDS, TINY = 5, 0.2  # hold-outs of few documents, and the share of each
SHARE, MOST = 0.1, 2000  # documents that judge otherwise
FIRST, STEP = 500, 4  # documents of the smallest sample, and how many times more the next has


class Fold(NamedTuple):
    """Rows to sample from, in random order: a smaller sample is part of a larger one; and documents that judge."""

    rows: Ints
    judges: Ints

    def sample(self, dataset: Dataset, size: int) -> Dataset:
        """So many documents to train on."""
        return dataset.take(np.sort(self.rows[:size]))


def folds(dataset: Dataset, seed: int) -> list[Fold]:
    """One hold-out, or several of few documents; none where no two texts differ."""
    n = int(dataset.documents.sum())
    share = TINY if n < FEW else min(SHARE, MOST / n)
    made = []
    for number in range(ROUNDS if n < FEW else 1):
        kept, out = holdout(dataset, share, SEED + seed + number)
        kept = kept[dataset.documents[kept]]
        order = np.random.default_rng([seed, number]).permutation(len(kept))
        out = out[np.diff(dataset.Y.indptr)[out] > 0]
        if len(kept) and len(out):
            made.append(Fold(kept[order], out))
    return made


def ladder(rows: int) -> list[int]:
    """Rising sample sizes up to all rows."""
    sizes, size = [], FIRST if rows > 2 * FIRST else max(1, rows // 2)
    while size * 1.5 < rows:
        sizes.append(size)
        size *= STEP
    return [*sizes, rows]
