"""Labels of the training texts nearest to a text in learned spaces, one for each cluster of each learner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from treetop.core.abilities import Gradient, HasGradient, HasNearTexts, NearText
from treetop.core.errors import ModelError
from treetop.core.part_checks import DAMAGED, floats, number, whole
from treetop.core.store import Part
from treetop.core.types import Candidates, Join, Ranking, View, check_view
from treetop.kernels.annex.clusters import best_clusters
from treetop.kernels.annex.search import Learner, Search, nearest
from treetop.kernels.search.neighbours import Triple, vote
from treetop.kernels.sparse import Rows, rows_of

HALF = ("W", "V", "vectors")  # kept as float16, used as float32
MOST = 10_000  # texts that a learner finds


class Embedded(HasGradient, HasNearTexts):
    """Votes of the `search.k` texts that each learner finds nearest, weighted by cosine ** power."""

    kind: ClassVar[str] = "rank.embedded.1"
    reads: ClassVar[str] = "votes"

    def __init__(
        self, learners: Sequence[Learner], targets: Triple, *, n: int, n_features: int, search: Search, power: float
    ) -> None:
        self.learners, self.targets, self.n, self.n_features = learners, targets, n, n_features
        self.search, self.power = search, power

    @property
    def n_documents(self) -> int:
        return len(self.targets[0]) - 1

    def nearest(self, view: View, *, exact: bool = False) -> tuple[Any, Any]:
        """(texts, cosines) that the learners find for each row, one learner after the other; -1 behind the last."""
        check_view(self.kind, view, self.n_features, dense=False)
        found = [nearest(rows_of(view), learner, self.search, exact=exact) for learner in self.learners]
        best, cosines = (np.concatenate(side, axis=1) for side in zip(*found, strict=True))
        order = np.argsort(best < 0, axis=1, kind="stable")
        # a vote of 0 counts for nothing, so none may vanish in the power
        cosines = np.maximum(cosines, np.float32(max(10.0 ** (-250.0 / max(self.power, 1.0)), 1e-37)))
        return np.take_along_axis(best, order, 1), np.take_along_axis(cosines, order, 1)

    def rank(self, view: View, candidates: Candidates, join: Join, keep: int) -> Ranking:
        best, cosines = self.nearest(view)
        indptr, ids, votes = vote(best, cosines, self.power, self.targets, self.n, keep)
        score = join.own(votes)
        return Ranking(indptr, ids, score, score)

    def _shares(self, view: View, node: int) -> tuple[Any, Any, NDArray[np.float64]]:
        """(texts, cosines, their parts of a label's score) of one text; a text may be there for several learners."""
        best, cosines = (found[0] for found in self.nearest(view))
        cosines, best = cosines[best >= 0].astype(np.float64), best[best >= 0]
        votes, (ptr, column, weight) = cosines**self.power, self.targets
        given = [weight[a:b][column[a:b] == node].sum() for a, b in zip(ptr[best], ptr[best + 1], strict=True)]
        return best, cosines, votes * np.array(given, np.float64) / max(votes.sum(), 1e-300)

    def near_texts(self, view: View, node: int) -> list[NearText]:
        best, cosines, shares = self._shares(view, node)
        rows, place, count = np.unique(best, return_inverse=True, return_counts=True)
        similar = np.bincount(place, cosines, len(rows)) / np.maximum(count, 1)
        votes = np.bincount(place, shares, len(rows))
        order = np.lexsort((rows, -similar))
        order = order[votes[order] > 0]
        return [NearText(int(rows[i]), float(similar[i]), float(votes[i])) for i in order.tolist()]

    def gradient(self, view: View, node: int) -> Gradient:
        """Each vote shared out over the terms as its cosine is: a sum over the terms, divided by the text's length."""
        _, cosines, shares = self._shares(view, node)
        X, at = rows_of(view), 0
        weights = np.zeros(len(X.indices))
        for learner in self.learners:
            found = nearest(X, learner, self.search)[0][0]
            n = int((found >= 0).sum())
            factor = shares[at : at + n] / cosines[at : at + n]
            weights += _terms(learner, X, found[:n], factor)
            at += n
        return Gradient(weights.astype(np.float32), 0.0, X.indices.astype(np.int64))

    def to_part(self) -> Part:
        config = {
            "n": self.n, "n_features": self.n_features, "k": self.search.k, "epsilon": self.search.epsilon,
            "power": self.power, "learners": len(self.learners),
        }  # fmt: skip
        arrays = dict(zip(("y_ptr", "y_col", "y_val"), self.targets, strict=True))
        parts = {f"learner-{i:02d}": learner_part(learner) for i, learner in enumerate(self.learners)}
        return Part(self.kind, config, arrays, parts)

    @classmethod
    def from_part(cls, part: Part) -> Any:
        n, n_features, count = whole(part, "n", 1), whole(part, "n_features", 0), whole(part, "learners", 1)
        search = Search(whole(part, "k", 1, MOST), number(part, "epsilon", 0.0))
        y_col = part.indices("y_col", "<i4", None, n)
        n_documents = len(part.array("y_ptr", "<i8", None)) - 1
        targets = (part.pointers("y_ptr", n_documents + 1, len(y_col)), y_col, part.array("y_val", "<f4", len(y_col)))
        if not ((targets[2] > 0) & (targets[2] < np.inf)).all() or count != len(part.parts):
            raise ModelError(f"{part.kind}: a vote is out of range, or a learner is missing. {DAMAGED}")
        learners = [read_learner(inner, n_features, n_documents) for _, inner in sorted(part.parts.items())]
        return cls(
            learners, targets, n=n, n_features=n_features, search=search, power=number(part, "power", 0.0)
        )  # fmt: skip


def _terms(learner: Learner, X: Rows, found: Any, factor: Any) -> NDArray[np.float64]:
    """(terms of the text,) sum over texts of factor times what a term of weight 1 adds to the cosine."""
    if len(found) == 0:
        return np.zeros(len(X.indices))
    cluster = int(best_clusters(X, learner.W, learner.penalty)[0])
    rows = slice(int(learner.row_ptr[cluster]), int(learner.row_ptr[cluster + 1]))
    features = learner.row_feature[rows]
    place = np.minimum(np.searchsorted(features, X.indices), len(features) - 1)
    known = features[place] == X.indices
    map_ = np.where(known[:, None], learner.V[rows][place], 0.0).astype(np.float64)
    length = float(np.linalg.norm(X.values.astype(np.float64) @ map_))
    docs = slice(int(learner.doc_ptr[cluster]), int(learner.doc_ptr[cluster + 1]))
    order = {doc: i for i, doc in enumerate(learner.docs[docs].tolist())}
    vectors = learner.vectors[docs][[order[doc] for doc in found.tolist()]].astype(np.float64)
    made: NDArray[np.float64] = map_ @ (vectors.T @ factor) / length
    return made


def learner_part(learner: Learner) -> Part:
    """A learner as data."""
    arrays = {name: array.astype(np.float16) if name in HALF else array for name, array in learner._asdict().items()}
    return Part("learner.1", {}, arrays)


def read_learner(part: Part, n_features: int, n_documents: int) -> Learner:
    """What `learner_part` stored, checked: links stay inside their cluster."""
    row_feature = part.indices("row_feature", "<i4", None, n_features)
    docs = part.indices("docs", "<i4", n_documents, n_documents)
    W = floats(part, "W", n_features, None, dtype="<f2").astype(np.float32)
    clusters = W.shape[1]
    penalty = floats(part, "penalty", clusters)
    V = floats(part, "V", len(row_feature), None, dtype="<f2").astype(np.float32)
    vectors = floats(part, "vectors", n_documents, V.shape[1], dtype="<f2").astype(np.float32)
    doc_ptr = part.pointers("doc_ptr", clusters + 1, n_documents)
    row_ptr = part.pointers("row_ptr", clusters + 1, len(row_feature))
    links = part.array("links", "<i4", None)
    link_ptr = part.pointers("link_ptr", n_documents + 1, len(links))
    sizes = np.diff(doc_ptr)
    most = np.repeat(np.repeat(sizes, sizes), np.diff(link_ptr))
    if clusters < 1 or V.shape[1] < 1 or (links < 0).any() or (links >= most).any():
        raise ModelError(f"{part.kind}: a link leads out of its cluster. {DAMAGED}")
    return Learner(W, penalty, row_ptr, row_feature, V, doc_ptr, docs, vectors, link_ptr, links)
