"""Texts with a label's name put in: what stands in for training texts where there are only a handful.

A text keeps its labels and gets one more, whose name stands at some place in it. A matcher learns from them what holds
for names in general: a complete one says more than a part, one in a piece more than one that is scattered, a name
within a longer name little.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from treetop.core.dataset import RETIRED, Csr, LabelSet
from treetop.core.texts import Texts


def with_names(texts: Texts, Y: Csr, labels: LabelSet, n: int, seed: int) -> tuple[Texts, Csr]:
    """`n` texts, drawn with repetition, each with the name of a random label in it, and their labels."""
    active = np.flatnonzero(labels.status != RETIRED)
    if n <= 0 or len(texts) == 0 or len(active) == 0:
        return Texts.of([]), sparse.csr_matrix((0, Y.shape[1]), dtype=np.float32)
    rng = np.random.default_rng(seed)
    rows, chosen = rng.integers(0, len(texts), n), active[rng.integers(0, len(active), n)]
    made = []
    for row, label in zip(rows.tolist(), chosen.tolist(), strict=True):
        words = texts[row].split()
        at = int(rng.integers(0, len(words) + 1))
        made.append(" ".join([*words[:at], labels.names[label], *words[at:]]))
    one = sparse.csr_matrix((np.ones(n, np.float32), chosen, np.arange(n + 1)), (n, Y.shape[1]))
    both: Csr = (Y[rows] + one).tocsr()
    both.data[:] = 1.0
    return Texts.of(made), both
