"""Two scores of a label and its rarity combined by a small decision tree: NGAME's late fusion, stored as arrays.

Candidates are the labels that either head ranks high; the final margin is the classifier's score plus `beta` times the
sum of the dual encoder's and the tree's probability.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from treetop.core.abilities import Gradient
from treetop.core.dataset import Csr
from treetop.core.errors import ModelError
from treetop.core.part_checks import floats, number
from treetop.core.store import Part
from treetop.core.types import Candidates, Floats, Join, Ranking, View
from treetop.rank.dual import Dual
from treetop.rank.head import Head

WIDE = 100  # best labels of each head that are candidates
CUTS = 64  # places where a feature may be cut
LEAST = 20  # pairs of a leaf


@dataclass(frozen=True, eq=False)
class Tree:
    """Nodes of a decision tree: which feature, where it is cut, where to go, and the share of hits; -1 is a leaf."""

    feature: NDArray[np.int32]
    cut: Floats
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    share: Floats

    def probability(self, X: Floats) -> Floats:
        """(rows,) the share of hits in the leaf each row falls into."""
        node = np.zeros(len(X), np.int64)
        while True:
            inner = self.feature[node] >= 0
            if not inner.any():
                return self.share[node]
            at = node[inner]
            low = X[inner, self.feature[at]] <= self.cut[at]
            node[inner] = np.where(low, self.left[at], self.right[at])


LEAF = Tree(
    np.full(1, -1, np.int32), np.zeros(1, np.float32), np.zeros(1, np.int32), np.zeros(1, np.int32),
    np.zeros(1, np.float32),
)  # fmt: skip


def grow(X: Floats, y: NDArray[np.bool_], *, depth: int) -> Tree:
    """A tree that cuts where the two sides differ most in their share of hits (least Gini impurity)."""
    nodes: list[list[Any]] = []

    def add(rows: NDArray[np.int64], left: int) -> int:
        here = len(nodes)
        hits = float(y[rows].mean()) if len(rows) else 0.0
        nodes.append([-1, 0.0, 0, 0, hits])
        found = best_cut(X[rows], y[rows]) if left > 0 and 0.0 < hits < 1.0 else None
        if found is not None:
            feature, cut = found
            low = X[rows, feature] <= cut
            nodes[here][:4] = [feature, cut, add(rows[low], left - 1), add(rows[~low], left - 1)]
        return here

    add(np.arange(len(X)), depth)
    columns = list(zip(*nodes, strict=True))
    kinds = (np.int32, np.float32, np.int32, np.int32, np.float32)
    return Tree(*(np.array(column, kind) for column, kind in zip(columns, kinds, strict=True)))  # type: ignore[arg-type]


def best_cut(X: Floats, y: NDArray[np.bool_]) -> tuple[int, float] | None:
    """(feature, cut) that leaves the least impurity, or None where no cut leaves both sides enough."""
    best: tuple[float, int, float] | None = None
    whole = _impurity(len(y), float(y.sum()))
    for feature in range(X.shape[1]):
        cuts = np.unique(np.quantile(X[:, feature], np.linspace(0, 1, CUTS + 2)[1:-1]).astype(np.float32))
        place = np.searchsorted(cuts, X[:, feature], side="left")  # x <= cuts[j] for all j from its place on
        counts = np.cumsum(np.bincount(place, minlength=len(cuts) + 1))[:-1]
        hits = np.cumsum(np.bincount(place, weights=y, minlength=len(cuts) + 1))[:-1]
        for cut, n, h in zip(cuts.tolist(), counts.tolist(), hits.tolist(), strict=True):
            if min(n, len(y) - n) < LEAST:
                continue
            left = _impurity(n, h) + _impurity(len(y) - n, float(y.sum()) - h)
            if left < whole - 1e-9 and (best is None or left < best[0]):
                best = (left, feature, cut)
    return None if best is None else (best[1], best[2])


def _impurity(n: float, hits: float) -> float:
    return hits * (n - hits) / n if n else 0.0


class Fusion(Dual):
    """Label vectors of both heads, the labels' rarity and a tree over (classifier, dual encoder, rarity)."""

    kind: ClassVar[str] = "rank.fusion.1"

    def __init__(self, both: Dual, rare: Floats, *, beta: float, tree: Tree = LEAF) -> None:
        super().__init__(both.weight, both.bias, widths=both.widths, text=both.text)
        self.rare, self.beta, self.tree = rare, beta, tree

    def rank(self, view: View, candidates: Candidates, join: Join, keep: int) -> Ranking:
        if candidates.ids is not None:
            raise ModelError(f"{self.kind}: searches for candidates itself. The model is damaged; train it again.")
        keep = min(keep, self.n)
        indptr, ids, X = self.features(view, max(WIDE, keep))
        margin = X[:, 0] + np.float32(self.beta) * (X[:, 1] + self.tree.probability(X))
        return Ranking.sorted(indptr, ids, join.own(margin)).top(keep)

    @cached_property
    def _heads(self) -> dict[str, Head]:
        """Each head by itself, its rows in one piece."""
        bias = {"dual": self.bias, "classifier": np.zeros_like(self.bias)}
        return {name: Head(np.ascontiguousarray(self.part(name)), bias[name]) for name in self.widths}

    def to(self, device: Any) -> Fusion:
        """The same with its heads, which look for labels, on another device."""
        moved = copy.copy(self)
        moved._heads = {name: head.to(device) for name, head in self._heads.items()}
        return moved

    def features(self, view: View, wide: int) -> tuple[NDArray[np.int64], NDArray[np.int32], Floats]:
        """(row pointers, labels, (pairs, 3) classifier, dual encoder, rarity) of the labels either head likes."""
        h, everything = np.asarray(view, np.float32), Candidates.all(view.shape[0], self.n)
        sides = {name: np.ascontiguousarray(h[:, self.place(name)]) for name in self._heads}
        found = [head.rank(sides[name], everything, Join(), min(wide, self.n)) for name, head in self._heads.items()]
        keys = np.unique(
            np.concatenate([np.repeat(np.arange(len(h)), np.diff(r.indptr)) * self.n + r.ids for r in found])
        )
        rows, ids = keys // self.n, (keys % self.n).astype(np.int32)
        indptr = np.searchsorted(rows, np.arange(len(h) + 1))
        scores = [self._heads[name].margins(sides[name], indptr, ids) for name in ("classifier", "dual")]
        return indptr, ids, np.column_stack([*scores, self.rare[ids]])

    def gradient(self, view: View, node: int) -> Gradient:
        """The tree's share is a step function of the scores: it counts as a constant, as this text has it."""
        heads = super().gradient(view, node)
        dual, classifier, beta = heads.parts["dual"] + heads.bias, heads.parts["classifier"], float(self.beta)
        share = self.tree.probability(np.array([[classifier, dual, self.rare[node]]], np.float32))
        weights = np.array(heads.weights)
        weights[self.place("dual")] *= np.float32(beta)
        tree = beta * float(share[0])
        parts = {"dual": beta * heads.parts["dual"], "classifier": classifier, "tree": tree}
        return Gradient(weights, beta * heads.bias + tree, parts=parts)

    def to_part(self) -> Part:
        tree = {f"tree_{name}": getattr(self.tree, name) for name in ("feature", "cut", "left", "right", "share")}
        part = super().to_part()
        return Part(self.kind, {**part.config, "beta": float(self.beta)}, {**part.arrays, "rare": self.rare, **tree})

    @classmethod
    def from_part(cls, part: Part) -> Fusion:
        both = Dual.from_part(part)
        if list(both.widths) != ["dual", "classifier"]:
            raise ModelError(f"{part.kind}: needs a dual encoder and a classifier, found {', '.join(both.widths)}.")
        n = len(part.array("tree_feature", "<i4", None))
        tree = Tree(
            part.array("tree_feature", "<i4", n), floats(part, "tree_cut", n),
            part.indices("tree_left", "<i4", n, max(n, 1)), part.indices("tree_right", "<i4", n, max(n, 1)),
            floats(part, "tree_share", n),
        )  # fmt: skip
        inner = tree.feature >= 0
        forward = (np.minimum(tree.left, tree.right) > np.arange(n))[inner].all()  # no circles
        if n == 0 or tree.feature.max() > 2 or not forward:
            raise ModelError(f"{part.kind}: its tree has a cycle. The model is damaged; copy it again.")
        return cls(both, floats(part, "rare", both.n), beta=number(part, "beta"), tree=tree)


def seen_pairs(rank: Fusion, view: View, Y: Csr) -> tuple[Floats, NDArray[np.bool_]]:
    """What a tree learns from: features of the pairs that either head likes, and which of them are right."""
    indptr, ids, X = rank.features(view, WIDE)
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    true = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr)) * rank.n + Y.indices
    return X, np.isin(rows * rank.n + ids, true)
