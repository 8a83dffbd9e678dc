"""Positives, ignored pairs and labels of equal texts, by chance."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from treetop.network.samplers.pools import PoolTargets

N, LABELS = 30, 25


def data(seed=0, ignored=True, twins=True):
    rng = np.random.default_rng(seed)
    Y = sparse.random(N, LABELS, 0.12, "csr", np.float32, rng=rng)
    Y.data = np.where(rng.random(Y.nnz) < 0.5, 1.0, 0.5).astype(np.float32)
    V = sparse.random(N, LABELS, 0.06, "csr", np.float32, rng=rng)
    V = (V - V.multiply(Y > 0)).tocsr()
    V.eliminate_zeros()
    text = np.full(LABELS, -1)
    text[[3, 7, 9]] = 3
    text[[4, 20]] = 4
    known = PoolTargets(
        LABELS, Y.indptr.astype(np.int64), Y.indices.astype(np.int64), Y.data,
        V.indptr.astype(np.int64) if ignored else None, V.indices.astype(np.int64) if ignored else None,
        text if twins else None,
    )  # fmt: skip
    return known, Y.toarray(), V.toarray() if ignored else np.zeros((N, LABELS)), text
