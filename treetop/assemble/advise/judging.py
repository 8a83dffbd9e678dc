"""Which documents validate trials, and which of the others are sampled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from treetop.assemble.held_out.own_documents import hold_out
from treetop.core.dataset import Dataset, Ints

SEED = 2 * 10**9  # added to a run's seed: other documents than those that `fit` holds out
FEW = 2000  # with fewer documents there are several hold-outs instead of one
ROUNDS, TINY = 5, 0.2  # their number, and the fraction of the documents in each
SHARE, MOST = 0.1, 2000  # fraction and maximum number of documents in a single hold-out
FIRST, STEP = 500, 4  # documents of the smallest sample, and the factor from one sample to the next


class Fold(NamedTuple):
    """Rows to sample from, in random order, so that each sample contains the smaller ones; and validation rows."""

    rows: Ints
    validation: Ints

    def sample(self, dataset: Dataset, size: int) -> Dataset:
        """The first `size` of these documents, to train on."""
        return dataset.take(np.sort(self.rows[:size]))


def folds(dataset: Dataset, seed: int) -> list[Fold]:
    """One hold-out, or several of few documents; none where no two texts differ."""
    n = int(dataset.documents.sum())
    share = TINY if n < FEW else min(SHARE, MOST / n)
    made = []
    for number in range(ROUNDS if n < FEW else 1):
        kept, out = hold_out(dataset, share, SEED + seed + number, TINY)
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
