"""Labels of the nearest training texts, each voting with its similarity; exact, no training beyond an index."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from treetop.core.abilities import Gradient, HasGradient, HasNearTexts, NearText
from treetop.core.dataset import Csr
from treetop.core.errors import ModelError
from treetop.core.part_checks import floats, number, whole
from treetop.core.store import Part
from treetop.core.types import Candidates, Join, Ranking, View, check_view
from treetop.kernels.search.neighbours import Triple, nearest, vote


class Neighbours(HasGradient, HasNearTexts):
    """Votes of the `k` training texts with the largest inner product, weighted by similarity ** power."""

    kind: ClassVar[str] = "rank.neighbours.1"
    reads: ClassVar[str] = "votes"

    def __init__(self, index: Triple, targets: Triple, *, n: int, k: int, power: float) -> None:
        self.index, self.targets = index, targets  # features by column; labels by training text
        self.n, self.k, self.power = n, k, power

    @classmethod
    def fit(cls, X: Csr, Y: Csr, *, k: int, power: float) -> Neighbours:
        Y = Y.copy()
        Y.eliminate_zeros()  # a soft target of 0 is not a vote
        return cls(_triple(X.tocsc()), _triple(Y), n=Y.shape[1], k=k, power=power)

    @property
    def n_features(self) -> int:
        return len(self.index[0]) - 1

    @property
    def n_documents(self) -> int:
        return len(self.targets[0]) - 1

    def nearest(self, view: View) -> tuple[Any, Any]:
        """(training texts, similarities), best first, for each row of the view."""
        check_view(self.kind, view, self.n_features, dense=False)
        return nearest(_triple(view), self.index, self.n_documents, min(self.k, self.n_documents))

    def rank(self, view: View, candidates: Candidates, join: Join, keep: int) -> Ranking:
        best, similar = self._voters(view)
        indptr, ids, votes = vote(best, similar, self.power, self.targets, self.n, keep)
        score = join.own(votes)
        return Ranking(indptr, ids, score, score)

    def _voters(self, view: View) -> tuple[Any, Any]:
        best, similar = self.nearest(view)
        # a vote of 0 counts for nothing, so none may vanish in the power
        return best, np.maximum(similar, np.float32(max(10.0 ** (-250.0 / max(self.power, 1.0)), 1e-37)))

    def near_texts(self, view: View, node: int) -> list[NearText]:
        best, similar = (found[0] for found in self._voters(view))
        similar, best = similar[best >= 0].astype(np.float64), best[best >= 0]
        votes, (ptr, column, weight) = similar**self.power, self.targets
        given = [weight[a:b][column[a:b] == node].sum() for a, b in zip(ptr[best], ptr[best + 1], strict=True)]
        shares = votes * np.array(given, np.float64) / max(votes.sum(), 1e-300)
        rows = zip(best.tolist(), similar.tolist(), shares.tolist(), strict=True)
        return [NearText(row, near, share) for row, near, share in rows if share > 0]

    def gradient(self, view: View, node: int) -> Gradient:
        """Each vote shared out over the terms as the similarity is: a sum over the terms that both texts have."""
        factor = np.zeros(self.n_documents)
        for text in self.near_texts(view, node):
            factor[text.row] = text.vote / text.similarity
        ptr, row, value = self.index
        spans = [slice(int(ptr[column]), int(ptr[column + 1])) for column in view.indices.tolist()]
        weights = [float(factor[row[span]] @ value[span].astype(np.float64)) for span in spans]
        return Gradient(np.array(weights, np.float32), 0.0, np.array(view.indices, np.int64))

    def to_part(self) -> Part:
        names = ("x_ptr", "x_row", "x_val", "y_ptr", "y_col", "y_val")
        config = {"n": self.n, "k": self.k, "power": self.power}
        return Part(self.kind, config, dict(zip(names, (*self.index, *self.targets), strict=True)))

    @classmethod
    def from_part(cls, part: Part) -> Any:
        n, k, power = whole(part, "n", 1), whole(part, "k", 1), number(part, "power", 0.0)
        n_documents = len(part.array("y_ptr", "<i8", None)) - 1
        n_features = len(part.array("x_ptr", "<i8", None)) - 1
        if n_documents < 1 or n_features < 0:
            raise ModelError(f"{part.kind}: {n_documents} texts, {n_features} features: the model is damaged.")
        x_row = part.indices("x_row", "<i4", None, n_documents)
        y_col = part.indices("y_col", "<i4", None, n)
        index = (part.pointers("x_ptr", n_features + 1, len(x_row)), x_row, floats(part, "x_val", len(x_row)))
        targets = (part.pointers("y_ptr", n_documents + 1, len(y_col)), y_col, part.array("y_val", "<f4", len(y_col)))
        if not ((targets[2] > 0) & (targets[2] < np.inf)).all():
            raise ModelError(f"{part.kind}: the weight of a vote is out of range: the model is damaged.")
        return cls(index, targets, n=n, k=k, power=power)


def _triple(matrix: Any) -> Triple:
    """indptr, indices, data in the types the kernels are compiled for."""
    return matrix.indptr.astype(np.int64, copy=False), matrix.indices.astype(np.int32, copy=False), matrix.data
