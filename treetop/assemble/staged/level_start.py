"""What a level begins with: candidates below chosen parents, and node vectors by a linear solve over embeddings."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treetop.assemble.linear.tree import LevelTask, solve_level
from treetop.core.dataset import Csr
from treetop.core.types import Floats, LabelTree, Ranking
from treetop.kernels.linear.descent import Columns, Settings
from treetop.kernels.sparse import Rows
from treetop.network.init import Start


def candidate_parents(true: Csr, found: Ranking | None) -> Csr:
    """(rows x nodes) 1 for the parents whose children are candidates: the true ones, and those found."""
    parents = sparse.csr_matrix((np.ones(true.nnz, np.float32), true.indices, true.indptr), true.shape)
    if found is not None:
        ones = np.ones(len(found.ids), np.float32)
        parents = (parents + sparse.csr_matrix((ones, found.ids, found.indptr), true.shape)).tocsr()
        parents.data = np.ones_like(parents.data)
    parents.sort_indices()
    return parents


def padded(parents: Csr) -> NDArray[np.int32]:
    """(rows, maximum per row) columns, padded with -1."""
    counts = np.diff(parents.indptr)
    table = np.full((parents.shape[0], max(1, int(counts.max(initial=0)))), -1, np.int32)
    rows = np.repeat(np.arange(parents.shape[0]), counts)
    table[rows, np.arange(parents.nnz) - np.repeat(parents.indptr[:-1], counts)] = parents.indices
    return table


def bootstrap(task: LevelTask, tree: LabelTree, t: int, solver: Settings) -> tuple[Floats, Floats]:
    """(nodes, width) vectors and biases: the squared-hinge solution of each node over the rows of its parent."""
    slot_ptr, ids = tree.children(t)
    vectors = np.zeros((len(ids), task.shape[1]), np.float32)
    biases = np.zeros(len(ids), np.float32)

    for chunk, solved in solve_level(task, tree, t, solver, _columns):
        children = ids[slot_ptr[chunk] : slot_ptr[chunk + 1]]
        vectors[np.repeat(children, solved.counts), solved.features] = solved.values
        biases[children] = solved.bias
    return vectors, biases


def _columns(solved: Columns, _scratch: object) -> Columns:
    return solved


def dense_rows(H: Floats) -> Rows:
    """A dense matrix as the solvers read rows."""
    n, width = H.shape
    indptr = np.arange(n + 1, dtype=np.uint64) * np.uint64(width)
    return Rows(indptr, np.tile(np.arange(width, dtype=np.uint32), n), np.ascontiguousarray(H).ravel())


def start_at(vectors: Floats, biases: Floats) -> Start:
    """Initial vectors over embeddings that are not centred."""
    return Start(vectors, np.zeros(vectors.shape[1], np.float32), biases)
