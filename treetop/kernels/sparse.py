"""Sparse rows with unsigned indices, and small sub-problems cut out of them.

numba adds a test for negative indices to every signed index; unsigned ones run 2.5 times as fast in the solvers.
"""

from __future__ import annotations

from copy import copy
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treetop.core.spill import Spill
from treetop.kernels.runtime.compile import kernel

T = TypeVar("T")
U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]
F32 = NDArray[np.float32]

NO_VALUES = np.zeros(0, np.float32)
ALONE = np.uint32(0xFFFFFFFF)  # marks a feature that only one row of a sub-problem has


class Rows(NamedTuple):
    """A csr (or, read the other way, csc) matrix: `indices[indptr[i] : indptr[i + 1]]` belong to row i."""

    indptr: U64
    indices: U32
    values: F32


def rows_of(matrix: Any) -> Rows:
    """`Rows` of a scipy csr or csc matrix, without copying where the types allow it; entries are made unique."""
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return Rows(
        np.ascontiguousarray(matrix.indptr, np.int64).view(np.uint64),
        np.ascontiguousarray(matrix.indices).view(np.uint32)
        if matrix.indices.dtype == np.int32
        else matrix.indices.astype(np.uint32),
        np.ascontiguousarray(matrix.data, np.float32),
    )


def read_only(value: T) -> T:
    """The same arrays, read-only, in a tuple of tuples: kernels are compiled once, wherever the arrays come from."""
    if isinstance(value, np.ndarray):
        view = value.view()
        view.setflags(write=False)
        return cast("T", view)
    if isinstance(value, tuple):
        parts = [read_only(part) for part in value]
        return cast("T", tuple.__new__(type(value), parts))
    return value


def csr_of(rows: Rows, n_columns: int) -> sparse.csr_matrix:
    """The scipy matrix of `rows`."""
    shape = (len(rows.indptr) - 1, n_columns)
    return sparse.csr_matrix((rows.values, rows.indices.view(np.int32), rows.indptr.view(np.int64)), shape)


def sound_csr(indptr: NDArray[Any], indices: NDArray[np.int32], data: F32, n_columns: int) -> sparse.csr_matrix:
    """The scipy matrix of rows with ascending columns, without scipy's checks: those cost more than a few texts do."""
    matrix = copy(_empty_csr(len(indptr) - 1, n_columns))
    matrix.indptr = indptr.astype(np.int32) if indptr[-1] < 1 << 31 else indptr
    matrix.indices, matrix.data = indices, data
    return matrix


@lru_cache(64)
def _empty_csr(n: int, n_columns: int) -> sparse.csr_matrix:
    matrix = sparse.csr_matrix((n, n_columns), dtype=np.float32)
    matrix.has_sorted_indices = matrix.has_canonical_format = True
    return matrix


class Local(NamedTuple):
    """Some rows with features numbered by how many of the rows have them, most frequent first.

    A feature of one row only is kept apart: it can be folded into that row's diagonal.
    """

    indptr: U32
    indices: U32
    values: F32
    features: U32  # global id of each shared feature
    alone_indptr: U32
    alone_features: U32  # global ids
    alone_values: F32


@kernel
def scramble(state: np.uint64) -> np.uint64:
    """A fresh random state from any number (splitmix64), never zero."""
    state += np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (state ^ (state >> np.uint64(31))) | np.uint64(1)


@kernel
def shuffle(items: U32, state: np.uint64) -> np.uint64:
    """Shuffle in place with a xorshift generator and return its next state."""
    n = np.uint64(len(items))
    for k in range(len(items)):
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        here = np.uint64(k)
        there = here + (((state >> np.uint64(32)) * (n - here)) >> np.uint64(32))
        kept = items[here]
        items[here] = items[there]
        items[there] = kept
    return state


@kernel
def _rank_features(counts: U32, seen: U32, n_rows: int) -> int:
    """Turn `counts[f]` of the seen features into 1 + rank (most frequent first) or ALONE; returns how many rank."""
    places = np.zeros(n_rows + 2, np.uint32)
    for f in seen:
        places[counts[f]] += np.uint32(1)
    total = np.uint32(0)
    for c in range(n_rows + 1, 1, -1):
        here = places[c]
        places[c] = total
        total += here
    for f in seen:
        c = counts[f]
        if c == np.uint32(1):
            counts[f] = ALONE
        else:
            places[c] += np.uint32(1)
            counts[f] = places[c]
    return int(total)


@kernel
def _survey(X: Rows, members: U32, counts: U32) -> Any:
    """(features of some rows, entries, how many of the features several rows share); `counts` becomes their ranks."""
    n, nnz = len(members), np.uint64(0)
    for row in members:
        nnz += X.indptr[row + np.uint32(1)] - X.indptr[row]
    seen = np.empty(min(nnz, np.uint64(len(counts))), np.uint32)
    n_seen = np.uint32(0)
    for row in members:
        for p in range(X.indptr[row], X.indptr[row + np.uint32(1)]):
            f = X.indices[p]
            if counts[f] == np.uint32(0):
                seen[n_seen] = f
                n_seen += np.uint32(1)
            counts[f] += np.uint32(1)
    seen = seen[:n_seen]
    return seen, np.int64(nnz), _rank_features(counts, seen, n)


@kernel
def _fill(X: Rows, members: U32, counts: U32, seen: U32, local_: Local) -> None:
    """Copy the rows into `local_` by the ranks in `counts`, which becomes zero again."""
    shared, alone = np.uint32(0), np.uint32(0)
    for i in range(len(members)):
        row = members[i]
        for p in range(X.indptr[row], X.indptr[row + np.uint32(1)]):
            f = X.indices[p]
            if counts[f] == ALONE:
                local_.alone_features[alone] = f
                local_.alone_values[alone] = X.values[p]
                alone += np.uint32(1)
            else:
                local_.indices[shared] = counts[f] - np.uint32(1)
                local_.values[shared] = X.values[p]
                shared += np.uint32(1)
        local_.indptr[i + 1] = shared
        local_.alone_indptr[i + 1] = alone
    for f in seen:
        if counts[f] != ALONE:
            local_.features[counts[f] - np.uint32(1)] = f
        counts[f] = 0


@kernel
def gather(X: Rows, members: U32, counts: U32) -> Local:
    """The rows `members` of X as a `Local` problem; `counts` is scratch of one zero per feature, left zero."""
    seen, nnz, n_shared = _survey(X, members, counts)
    n_alone = len(seen) - n_shared
    local_ = Local(
        np.zeros(len(members) + 1, np.uint32),
        np.empty(nnz - n_alone, np.uint32),
        np.empty(nnz - n_alone, np.float32),
        np.empty(n_shared, np.uint32),
        np.zeros(len(members) + 1, np.uint32),
        np.empty(n_alone, np.uint32),
        np.empty(n_alone, np.float32),
    )
    _fill(X, members, counts, seen, local_)
    return local_


def gather_spilled(X: Rows, members: U32, counts: U32, spill: Spill) -> Local:
    """The same with large arrays in files."""
    seen, nnz, n_shared = _survey(X, members, counts)
    n_alone = len(seen) - n_shared
    local_ = Local(
        np.zeros(len(members) + 1, np.uint32),
        spill.empty(nnz - n_alone, np.uint32),
        spill.empty(nnz - n_alone, np.float32),
        np.empty(n_shared, np.uint32),
        np.zeros(len(members) + 1, np.uint32),
        np.empty(n_alone, np.uint32),
        np.empty(n_alone, np.float32),
    )
    _fill(X, members, counts, seen, local_)
    return local_


@kernel
def grown(array: Any, needed: int) -> Any:
    """`array`, or a longer copy with room for `needed` items."""
    if needed <= len(array):
        return array
    larger = np.empty(max(needed, 2 * len(array)), array.dtype)
    larger[: len(array)] = array
    return larger
