"""Documents by their terms: an inverted index with the weights of unit rows, whose sums of products are cosines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treetop.core.dataset import Csr, Ints
from treetop.core.errors import ModelError
from treetop.core.part_checks import DAMAGED, floats
from treetop.core.store import Part
from treetop.core.types import Floats, View, check_view


class Terms:
    """Cosines of sparse rows with all documents."""

    kind: ClassVar[str] = "documents.terms.1"

    def __init__(self, ends: Ints, row: NDArray[np.int32], weight: NDArray[np.float16], n: int) -> None:
        self.ends, self.row, self.weight, self.n = ends, row, weight, n  # documents and weights, grouped by term

    @classmethod
    def of(cls, blocks: Iterable[Csr]) -> Terms:
        """An index of the rows of some blocks, in their order."""
        X = sparse.vstack([unit_rows(block) for block in blocks], format="csr").tocsc()
        return cls(X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data.astype(np.float16), X.shape[0])

    def similarities(self, view: View) -> Floats:
        """(documents,) cosines with the one row of a view."""
        check_view(self.kind, view, len(self.ends) - 1, dense=False)
        row, total = unit_rows(view), np.zeros(self.n, np.float32)
        for column, value in zip(row.indices.tolist(), row.data.tolist(), strict=True):
            span = slice(int(self.ends[column]), int(self.ends[column + 1]))
            total[self.row[span]] += np.float32(value) * self.weight[span].astype(np.float32)
        return total

    def to_part(self) -> Part:
        return Part(self.kind, {}, {"ends": self.ends, "row": self.row, "weight": self.weight})

    @classmethod
    def from_part(cls, part: Part, n: int) -> Terms:
        """What `to_part` stored of `n` documents."""
        row = part.indices("row", "<i4", None, n)
        terms = len(part.array("ends", "<i8", None)) - 1
        weight = floats(part, "weight", len(row), dtype="<f2")
        if terms < 0 or (weight.size and not (-1.01 < float(weight.min()) <= float(weight.max()) < 1.01)):
            raise ModelError(f"{part.kind}: the weight of a term is out of range, or there are no terms. {DAMAGED}")
        return cls(part.pointers("ends", terms + 1, len(row)), row, weight, n)


def unit_rows(X: Csr) -> Csr:
    """Rows at length 1; an empty one stays empty."""
    squares = np.asarray(X.multiply(X).sum(axis=1), np.float64).ravel()
    scale = 1.0 / np.sqrt(np.where(squares > 0, squares, 1.0))
    data = (X.data * np.repeat(scale, np.diff(X.indptr))).astype(np.float32)
    return sparse.csr_matrix((data, X.indices, X.indptr), X.shape)
