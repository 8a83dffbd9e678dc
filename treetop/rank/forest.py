"""Labels of the documents that share leaves with a text in trees over documents, ranked anew by their centroids."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from treetop.core.abilities import Gradient, HasGradient, HasNearTexts, NearText
from treetop.core.errors import ModelError
from treetop.core.part_checks import DAMAGED, floats, number, whole
from treetop.core.store import Part
from treetop.core.types import Candidates, Join, Ranking, View, check_view
from treetop.kernels.forest.paths import leaves_of, shares
from treetop.kernels.forest.walk import Centroids, Targets, Trees, near, rank_labels
from treetop.kernels.search.union import best_of_rows
from treetop.kernels.sparse import rows_of

LEAST = 1e-30  # tree score of a label that no leaf names, where an explanation asks for it
SHARPEST = 1e6  # gamma
NO_CENTROIDS = Centroids(
    np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32), np.zeros(0, np.float32), 1.0, 0.0
)


class Forest(HasGradient, HasNearTexts):
    """alpha log(mean share of a label in the leaves) + (1 - alpha) log P(label | distance to its centroid)."""

    kind: ClassVar[str] = "rank.forest.1"
    reads: ClassVar[str] = "trees"

    def __init__(self, trees: Trees, targets: Targets, centroids: Centroids, n_features: int) -> None:
        self.trees, self.targets, self.centroids, self.n_features = trees, targets, centroids, n_features
        self.n = len(targets.gain)

    @property
    def n_documents(self) -> int:
        return len(self.targets.ptr) - 1

    def rank(self, view: View, candidates: Candidates, join: Join, keep: int) -> Ranking:
        check_view(self.kind, view, self.n_features, dense=False)
        found = rank_labels(rows_of(view), self.n_features, self.trees, self.targets, self.centroids)
        indptr, labels, margins = found
        own = join.own(margins)
        return Ranking(*best_of_rows(indptr, labels, own, own, keep))

    def _gains(self, node: int) -> NDArray[np.float64]:
        """(documents,) what each document earns by a label."""
        ptr, labels, values, gain = self.targets
        at = np.flatnonzero(labels == node)
        made = np.zeros(self.n_documents)
        made[np.searchsorted(ptr, at, side="right") - 1] = values[at].astype(np.float64) * float(gain[node])
        return made

    def near_texts(self, view: View, node: int) -> list[NearText]:
        trees, X, gains = self.trees, rows_of(view), self._gains(node)
        meets, votes = np.zeros(self.n_documents), np.zeros(self.n_documents)
        for leaf in leaves_of(trees, X.indices, X.values, self.n_features).tolist():
            docs = trees.docs[trees.leaf_ptr[leaf] : trees.leaf_ptr[leaf + 1]]
            np.add.at(meets, docs, 1.0)
            np.add.at(votes, docs, gains[docs] / max(len(docs), 1))
        n, rows = len(trees.roots), np.flatnonzero(votes)
        rows = rows[np.lexsort((rows, -meets[rows]))]
        return [NearText(int(row), float(meets[row] / n), float(votes[row] / n)) for row in rows.tolist()]

    def gradient(self, view: View, node: int) -> Gradient:
        """The tree score as the changes on the way to the leaves share it out, and the centroid's as its product is."""
        X, centroids = rows_of(view), self.centroids
        x = X.values.astype(np.float64)
        parts, base = shares(self.trees, self._gains(node), X.indices, X.values, self.n_features)
        start, score = max(base, LEAST), max(base + float(parts.sum()), LEAST)
        rise = float(np.log(score) - np.log(start))
        scale = rise / (score - start) if score != start else 1.0 / score
        bias, terms = float(np.log(start)) + scale * float(parts[-1]), scale * parts[:-1]
        bias += rise - scale * float(parts.sum())  # of a label that no leaf names
        if len(centroids.square):
            products = x * self._centroid(node, X.indices)
            square, length, alpha = float(centroids.square[node]), float(np.sqrt(x @ x)), centroids.alpha
            without, product = near(0.0, length, square, centroids.gamma), float(products.sum())
            whole_ = near(product, length, square, centroids.gamma)
            bias = alpha * bias + (1 - alpha) * without
            terms = alpha * terms + (1 - alpha) * (whole_ - without) / (product or 1.0) * products
        weights = np.divide(terms, x, out=np.zeros(len(x)), where=x != 0)
        return Gradient(weights.astype(np.float32), bias, X.indices.astype(np.int64))

    def _centroid(self, node: int, columns: Any) -> NDArray[np.float64]:
        """Values of a label's centroid at some features."""
        row = slice(int(self.centroids.ptr[node]), int(self.centroids.ptr[node + 1]))
        dense = np.zeros(self.n_features)
        dense[self.centroids.features[row]] = self.centroids.values[row]
        made: NDArray[np.float64] = dense[columns]
        return made

    def to_part(self) -> Part:
        trees, targets, centroids = self.trees, self.targets, self.centroids
        config = {
            "n": self.n,
            "n_features": self.n_features,
            "alpha": float(centroids.alpha),
            "gamma": float(centroids.gamma),
        }
        arrays = dict(trees._asdict())
        arrays |= {"y_ptr": targets.ptr, "y_label": targets.labels, "y_value": targets.values, "gain": targets.gain}
        arrays |= {"c_ptr": centroids.ptr, "c_feature": centroids.features, "c_value": centroids.values}
        return Part(self.kind, config, arrays | {"c_square": centroids.square})

    @classmethod
    def from_part(cls, part: Part) -> Any:
        n, n_features = whole(part, "n", 1), whole(part, "n_features", 0)
        targets = _targets(part, n)
        trees = _trees(part, n_features, len(targets.ptr) - 1)
        return cls(trees, targets, _centroids(part, n, n_features), n_features)


def _targets(part: Part, n: int) -> Targets:
    labels = part.indices("y_label", "<i4", None, n)
    ptr = part.pointers("y_ptr", len(part.array("y_ptr", "<i8", None)), len(labels))
    values, gain = part.array("y_value", "<f4", len(labels)), part.array("gain", "<f4", n)
    if not all(((array > 0) & (array < np.inf)).all() for array in (values, gain)):
        raise ModelError(f"{part.kind}: the weight of a vote is out of range. {DAMAGED}")
    return Targets(ptr, labels, values, gain)


def _trees(part: Part, n_features: int, n_documents: int) -> Trees:
    """Trees whose ways all end in a leaf: a child comes after its parent."""
    features = part.indices("features", "<i4", None, n_features)
    docs = part.indices("docs", "<i4", None, n_documents)
    children, roots = part.array("children", "<i4", None, 2), part.array("roots", "<i4", None)
    leaf_ptr = part.pointers("leaf_ptr", len(part.array("leaf_ptr", "<i8", None)), len(docs))
    n, leaves = len(children), len(leaf_ptr) - 1
    known = all(array.min(initial=0) >= -leaves and array.max(initial=-1) < n for array in (children, roots))
    down = (children < 0) | (children > np.arange(n, dtype=np.int32)[:, None])
    if not (known and len(roots) and leaves > 0 and down.all()):
        raise ModelError(f"{part.kind}: a tree has a way that ends in no leaf. {DAMAGED}")
    return Trees(
        roots, children, floats(part, "bias", n), part.pointers("ptr", n + 1, len(features)), features,
        floats(part, "weights", len(features)), leaf_ptr, docs,
    )  # fmt: skip


def _centroids(part: Part, n: int, n_features: int) -> Centroids:
    features, square = part.indices("c_feature", "<i4", None, n_features), floats(part, "c_square", None)
    if len(square) not in (0, n):
        raise ModelError(f"{part.kind}: {len(square)} centroids for {n} labels. {DAMAGED}")
    ptr = part.pointers("c_ptr", len(square) + 1, len(features))
    values = floats(part, "c_value", len(features))
    return Centroids(
        ptr, features, values, square, number(part, "alpha", 0.0, 1.0), number(part, "gamma", 0.0, SHARPEST)
    )
