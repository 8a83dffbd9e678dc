"""Labels of the training texts whose vectors are nearest, each voting with its similarity; exact, nothing is learned.

The vectors are searched as label vectors are (`head.py`): in blocks, on the device they were moved to.
"""

from __future__ import annotations

import copy
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from treetop.core.abilities import Gradient, HasGradient, HasNearTexts, MovesToDevice, NearText
from treetop.core.dataset import Csr
from treetop.core.errors import ModelError
from treetop.core.part_checks import floats, number, whole
from treetop.core.store import Part
from treetop.core.types import Candidates, Floats, Join, Ranking, View, check_view
from treetop.kernels.search.neighbours import Triple, vote
from treetop.rank.head import Head

LEAST = 1e-37  # of a similarity: a vote of 0 counts for nothing, so none may vanish


class DenseNeighbours(MovesToDevice, HasGradient, HasNearTexts):
    """Votes of the `k` training texts with the largest inner product, weighted by similarity ** power."""

    kind: ClassVar[str] = "rank.dense_neighbours.1"
    reads: ClassVar[str] = "votes"

    def __init__(self, vectors: NDArray[np.float16], targets: Triple, *, n: int, k: int, power: float) -> None:
        self.vectors, self.targets = vectors, targets  # of the training texts, and their labels
        self.n, self.k, self.power = n, k, power
        weight = vectors.astype(np.float32)
        self.index = Head(weight, np.zeros(len(weight), np.float32))

    @classmethod
    def fit(cls, vectors: NDArray[np.float16], Y: Csr, *, k: int, power: float) -> DenseNeighbours:
        Y = Y.copy()
        Y.eliminate_zeros()  # a soft target of 0 is not a vote
        targets = (Y.indptr.astype(np.int64), Y.indices.astype(np.int32), Y.data)
        return cls(vectors, targets, n=Y.shape[1], k=k, power=power)

    @property
    def n_documents(self) -> int:
        return len(self.vectors)

    @property
    def view_width(self) -> int:
        """Columns of the view it reads."""
        return int(self.vectors.shape[1])

    def to(self, device: Any) -> Self:
        moved = copy.copy(self)
        moved.index = self.index.to(device)
        return moved

    def nearest(self, view: View) -> tuple[NDArray[np.int32], Floats]:
        """(training texts, similarities), best first, for each row of the view; -1 behind the last."""
        check_view(self.kind, view, self.view_width, dense=True)
        k = min(self.k, self.n_documents)
        found = self.index.rank(view, Candidates.all(len(view), self.n_documents), Join(), k)
        best = found.padded(k)
        similar = np.zeros(best.shape, np.float32)
        similar[best >= 0] = found.top(k).score
        return best, similar

    def rank(self, view: View, candidates: Candidates, join: Join, keep: int) -> Ranking:
        best, similar = self._voters(view)
        indptr, ids, votes = vote(best, similar, self.power, self.targets, self.n, keep)
        score = join.own(votes)
        return Ranking(indptr, ids, score, score)

    def _voters(self, view: View) -> tuple[NDArray[np.int32], Floats]:
        best, similar = self.nearest(view)
        least = max(10.0 ** (-250.0 / max(self.power, 1.0)), LEAST)
        return best, np.maximum(similar, np.float32(least))  # texts that point away vote hardly at all

    def near_texts(self, view: View, node: int) -> list[NearText]:
        best, similar = (found[0] for found in self._voters(view))
        similar, best = similar[best >= 0].astype(np.float64), best[best >= 0]
        votes, (ptr, column, weight) = similar**self.power, self.targets
        given = [weight[a:b][column[a:b] == node].sum() for a, b in zip(ptr[best], ptr[best + 1], strict=True)]
        shares = votes * np.array(given, np.float64) / max(votes.sum(), 1e-300)
        rows = zip(best.tolist(), similar.tolist(), shares.tolist(), strict=True)
        return [NearText(row, near, share) for row, near, share in rows if share > 0]

    def gradient(self, view: View, node: int) -> Gradient:
        """Each vote shared out over the view as its similarity is, which is an inner product with it."""
        near = self.near_texts(view, node)
        factor = np.array([text.vote / text.similarity for text in near])
        rows = self.vectors[[text.row for text in near]].astype(np.float64)
        return Gradient((factor @ rows).astype(np.float32), 0.0)

    def to_part(self) -> Part:
        arrays = dict(zip(("y_ptr", "y_col", "y_val"), self.targets, strict=True)) | {"vectors": self.vectors}
        return Part(self.kind, {"n": self.n, "k": self.k, "power": self.power}, arrays)

    @classmethod
    def from_part(cls, part: Part) -> Any:
        n, k, power = whole(part, "n", 1), whole(part, "k", 1), number(part, "power", 0.0)
        n_documents = len(part.array("y_ptr", "<i8", None)) - 1
        if n_documents < 1:
            raise ModelError(f"{part.kind}: {n_documents} texts: the model is damaged.")
        y_col = part.indices("y_col", "<i4", None, n)
        targets = (part.pointers("y_ptr", n_documents + 1, len(y_col)), y_col, part.array("y_val", "<f4", len(y_col)))
        if not ((targets[2] > 0) & (targets[2] < np.inf)).all():
            raise ModelError(f"{part.kind}: the weight of a vote is out of range: the model is damaged.")
        vectors = floats(part, "vectors", n_documents, None, dtype="<f2")
        return cls(vectors, targets, n=n, k=k, power=power)
