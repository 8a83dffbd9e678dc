"""Which labels go together: a graph of labels that share texts, and label descriptions smoothed over it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from treetop.core.config import setting
from treetop.core.dataset import Csr
from treetop.kernels.sparse import csr_of, rows_of
from treetop.kernels.sums import unit_sums
from treetop.kernels.walks import visited


@dataclass(frozen=True, kw_only=True)
class WalkConfig:
    """Random walks with restart between labels and texts (ECLARE, CascadeXML)."""

    hops: int = setting(400, "hops of a walk: a text of the label, a label of that text", low=1)
    restart: float = setting(0.8, "probability of going back to the origin after a hop", low=0.0, high=1.0)
    keep: int = setting(10, "labels kept of those a walk visits", low=1)


def walk_graph(Y: Csr, config: WalkConfig, *, seed: int) -> Csr:
    """G (labels x labels): visits of a walk from each label, itself always among them, scaled by both degrees."""
    n = Y.shape[1]
    ids, visits = visited(
        rows_of(Y.T.tocsr()), rows_of(Y), hops=config.hops, restart=config.restart, keep=config.keep, seed=seed
    )
    rows = np.repeat(np.arange(n), config.keep)
    G = sparse.csr_matrix((visits.ravel().astype(np.float32), (rows, ids.ravel())), (n, n))
    G = G + sparse.diags((G.diagonal() == 0).astype(np.float32))
    out, into = (1.0 / np.sqrt(np.asarray(G.sum(axis)).ravel()) for axis in (1, 0))
    made: Csr = (sparse.diags(out) @ G @ sparse.diags(into)).tocsr().astype(np.float32)
    made.eliminate_zeros()
    made.sort_indices()
    return made


def smoothed(Z: Csr, G: Csr) -> Csr:
    """G Z with unit rows: a label is described by its own texts and those of labels it goes with."""
    return csr_of(unit_sums(rows_of(G), rows_of(Z), Z.shape[1]), Z.shape[1])
