"""Slow twins of `sides.py`, `grow.py` and `walk.py`: one document, label and node at a time, nothing clever.

The separator of a node is the same in both: `linear/l1_logistic.py` has a twin of its own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from treetop.kernels.forest.grow import Plan, Scratch, separator
from treetop.kernels.forest.sides import ENOUGH, coin_sides
from treetop.kernels.forest.walk import Centroids, Targets, Trees
from treetop.kernels.sparse import Rows, rows_of, scramble


def split(Y: Any, ideal: Any, side: Any, pull: Any, discount: Any, passes: int) -> Any:
    """(documents,) sides after both updates in turn; Y (documents x labels) holds gains."""
    dense, side, last = Y.toarray().astype(np.float64), np.array(side), -math.inf
    there = np.flatnonzero(np.diff(Y.tocsc().indptr))
    for _ in range(passes):
        discounts = {s: _discounts(dense, there, np.flatnonzero(side == s), ideal, discount) for s in (-1, 1)}
        earned = {s: np.array([_dcg(row, discounts[s]) for row in dense]) for s in (-1, 1)}
        wanted = np.sign((earned[1] - earned[-1]) * ideal.astype(np.float64) + pull)
        better = {s: earned[s] * ideal for s in (-1, 1)}
        moved = np.where(wanted == 0, side, wanted)
        mean = float(np.mean(np.where(moved > 0, better[1], better[-1])))
        changed, side = bool((moved != side).any()), moved.astype(np.int8)
        if not changed or mean - last < ENOUGH * abs(mean):
            break
        last = mean
    return side


def _discounts(dense: Any, there: Any, rows: Any, ideal: Any, discount: Any) -> Any:
    """(labels,) discount of each label's place in the ranking of some documents."""
    sums = np.zeros(dense.shape[1])
    for row in rows:
        sums += dense[row] * float(ideal[row])
    order = sorted(there.tolist(), key=lambda label: (-np.float32(sums[label]), label))
    made = np.zeros(dense.shape[1])
    made[order] = discount[: len(order)]
    return made


def _dcg(row: Any, discounts: Any) -> float:
    """Added up in the order of labels, as ties decide."""
    total = 0.0
    for label in np.flatnonzero(row):
        total += row[label] * discounts[label]
    return total


def grow(X: Any, Y: Any, ideal: Any, discount: Any, seed: int, plan: Plan, scratch: Scratch) -> Any:
    """(children, [(features, weights, bias)], leaves) as lists, by recursion."""
    rows, nodes, leaves = rows_of(X), [], []  # type: ignore[var-annotated]

    def visit(docs: Any, depth: int) -> int:
        made = node(docs) if len(docs) > plan.max_leaf and depth < plan.max_depth else None
        if made is None:
            leaves.append(docs.tolist())
            return -len(leaves)
        number = len(nodes)
        found, margin = made
        nodes.append([None, found])
        nodes[number][0] = [visit(docs[margin <= 0], depth + 1), visit(docs[margin > 0], depth + 1)]
        return number

    def node(docs: Any) -> Any:
        with np.errstate(over="ignore"):
            state = np.uint64(seed) * np.uint64(0x2545F4914F6CDD1D) + np.uint64(len(nodes)) + np.uint64(1)
        side = coin_sides(len(docs), np.uint64(scramble(state)))
        side = split(Y[docs], ideal[docs], side, np.zeros(len(docs)), discount, plan.passes)
        positive = int((side > 0).sum())
        if positive in (0, len(docs)):
            return None
        found = separator(rows, docs.astype(np.uint32), side, positive, plan, scratch)
        margin = np.array([_margin(X[doc], found) for doc in docs])
        return None if (margin > 0).all() or not (margin > 0).any() else (found, margin)

    root = visit(np.arange(X.shape[0]), 0)
    return root, [n[0] for n in nodes], [n[1] for n in nodes], leaves


def _margin(x: Any, found: Any) -> float:
    weights = dict(zip(found[0].tolist(), found[1].tolist(), strict=True))
    total = float(found[2])
    for feature, value in zip(x.indices.tolist(), x.data.tolist(), strict=True):
        total += weights.get(feature, 0.0) * value
    return total


def rank_labels(X: Rows, trees: Trees, targets: Targets, centroids: Centroids) -> list[dict[int, float]]:
    """Label -> margin for each row."""
    made = []
    for row in range(len(X.indptr) - 1):
        here = slice(int(X.indptr[row]), int(X.indptr[row + 1]))
        x = dict(zip(X.indices[here].tolist(), X.values[here].tolist(), strict=True))
        scores: dict[int, float] = {}
        for root in trees.roots.tolist():
            leaf = _leaf(trees, root, x)
            docs = trees.docs[trees.leaf_ptr[leaf] : trees.leaf_ptr[leaf + 1]].tolist()
            for doc in docs:
                for q in range(int(targets.ptr[doc]), int(targets.ptr[doc + 1])):
                    label = int(targets.labels[q])
                    share = float(targets.values[q]) * float(targets.gain[label]) / len(docs)
                    scores[label] = scores.get(label, 0.0) + share / len(trees.roots)
        made.append({label: _joined(score, label, centroids, x) for label, score in scores.items()})
    return made


def _leaf(trees: Trees, node: int, x: dict[int, float]) -> int:
    while node >= 0:
        here = slice(int(trees.ptr[node]), int(trees.ptr[node + 1]))
        pairs = zip(trees.features[here].tolist(), trees.weights[here].tolist(), strict=True)
        margin = float(trees.bias[node]) + sum(weight * x.get(feature, 0.0) for feature, weight in pairs)
        node = int(trees.children[node, int(margin > 0)])
    return -1 - node


def _joined(score: float, label: int, centroids: Centroids, x: dict[int, float]) -> float:
    if len(centroids.square) == 0:
        return math.log(score)
    here = slice(int(centroids.ptr[label]), int(centroids.ptr[label + 1]))
    centroid = dict(zip(centroids.features[here].tolist(), centroids.values[here].tolist(), strict=True))
    length = math.sqrt(sum(value * value for value in x.values())) or 1.0
    places = {*x, *centroid}
    distance = sum((x.get(f, 0.0) / length - centroid.get(f, 0.0)) ** 2 for f in places)
    tail = -float(np.logaddexp(0, 0.5 * centroids.gamma * distance))
    return float(centroids.alpha) * math.log(score) + (1 - float(centroids.alpha)) * tail
