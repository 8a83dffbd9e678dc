"""Labels as the sum of their training texts' features (positive instance feature aggregation)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from treetop.core.dataset import Csr
from treetop.kernels.sparse import csr_of, rows_of
from treetop.kernels.sums import unit_sums
from treetop.labels.source import Source


def describe(source: Source) -> Any:
    """The description `pifa`."""
    return pifa(source.X, source.Y, normalise_targets=source.normalise_targets)


def pifa(X: Any, Y: Csr, *, normalise_targets: bool = True) -> Any:
    """Z (labels x features) with unit rows: Y^T X, each text's weight spread over its labels when asked (PECOS).

    A label without texts has an empty row. Rows must be documents only. `X` may be dense, then so is Z.
    """
    weights = (unit_rows(Y) if normalise_targets else Y).T.tocsr()
    if sparse.issparse(X):
        return csr_of(unit_sums(rows_of(weights), rows_of(X), X.shape[1]), X.shape[1])
    Z = weights @ X
    length = np.linalg.norm(Z, axis=1, keepdims=True)
    return (Z / np.where(length > 0, length, 1)).astype(np.float32)


def unit_rows(matrix: Csr) -> Csr:
    """The same matrix with rows of length 1; an empty row stays empty."""
    squares = np.concatenate([np.zeros(1), np.cumsum(matrix.data.astype(np.float64) ** 2)])
    length = np.sqrt(np.maximum(squares[matrix.indptr[1:]] - squares[matrix.indptr[:-1]], 0))
    scale = np.repeat(1.0 / np.where(length > 0, length, 1), np.diff(matrix.indptr))
    return sparse.csr_matrix(((matrix.data * scale).astype(np.float32), matrix.indices, matrix.indptr), matrix.shape)
