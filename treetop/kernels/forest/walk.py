"""The way of texts down the trees to labels: those of the documents in the leaves, and how near their centroids are.

A label's share in a leaf is its mean gain over the leaf's documents, its tree score the mean of these shares over all
trees (FastXML). The centroid score is log 1 / (1 + exp(gamma / 2 |x - centroid|^2)), and a margin is
alpha log(tree score) + (1 - alpha) centroid score (PfastreXML). Texts are looked at one by one, so that nothing depends
on their batch. Twin: `slow.py`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treetop.kernels.runtime.compile import kernel, tight
from treetop.kernels.runtime.threads import blocks, run
from treetop.kernels.sparse import F32, Rows

BLOCK = 128  # texts of a piece of work


class Trees(NamedTuple):
    """All trees of a forest: their nodes and leaves numbered through (`grow.py`)."""

    roots: Any  # (trees,) int32: a node, or -1 - a leaf
    children: Any  # (nodes, 2) int32
    bias: F32
    ptr: Any  # (nodes + 1,) int64
    features: Any  # int32, ascending in each node
    weights: F32
    leaf_ptr: Any  # (leaves + 1,) int64
    docs: Any  # int32


class Targets(NamedTuple):
    """Labels of the documents, and what a hit on each label earns."""

    ptr: Any  # int64
    labels: Any  # int32
    values: F32
    gain: F32  # (labels,)


class Centroids(NamedTuple):
    """A centroid for each label, features ascending, with its squared length; without labels: none is used."""

    ptr: Any  # int64
    features: Any  # int32
    values: F32
    square: F32
    alpha: float
    gamma: float


@tight
def dot(features: Any, values: F32, first: Any, end: Any, columns: Any, dense: F32) -> float:
    """The inner product of a stored row with a text, summed in ascending order of features.

    A short row is read whole; in a long one the text's features are searched for. Both add the same products.
    """
    total, n = 0.0, end - first
    if n <= 8 * len(columns):
        for p in range(first, end):
            x = dense[features[p]]
            if x != 0.0:
                total += np.float64(values[p]) * np.float64(x)
        return total
    low = first
    for column in columns:
        high = end
        while low < high:
            middle = (low + high) >> np.uint64(1)
            if features[middle] < column:
                low = middle + np.uint64(1)
            else:
                high = middle
        if low < end and features[low] == column:
            total += np.float64(values[low]) * np.float64(dense[column])
    return total


@tight
def leaf_of(trees: Trees, tree: Any, columns: Any, dense: F32) -> Any:
    """The leaf that a text reaches in a tree."""
    node = trees.roots[tree]
    while node >= 0:
        margin = np.float64(trees.bias[node]) + dot(
            trees.features, trees.weights, np.uint64(trees.ptr[node]), np.uint64(trees.ptr[node + 1]), columns, dense
        )
        node = trees.children[node, 1 if margin > 0.0 else 0]
    return -1 - node


@tight
def _votes(trees: Trees, targets: Targets, columns: Any, dense: F32, votes: Any, touched: Any) -> int:
    """Add up the shares of all leaves in `votes`; returns how many labels have some, which stand in `touched`."""
    n = 0
    for tree in range(len(trees.roots)):
        leaf = leaf_of(trees, tree, columns, dense)
        first, end = trees.leaf_ptr[leaf], trees.leaf_ptr[leaf + 1]
        for p in range(first, end):
            doc = trees.docs[p]
            for q in range(targets.ptr[doc], targets.ptr[doc + 1]):
                label = targets.labels[q]
                share = np.float64(targets.values[q]) * np.float64(targets.gain[label]) / (end - first)
                if share > 0.0:
                    if votes[label] == 0.0:
                        touched[n] = label
                        n += 1
                    votes[label] += share
    return n


@tight
def near(product: float, length: float, square: float, gamma: float) -> float:
    """Log 1 / (1 + exp(gamma / 2 |x - centroid|^2)) of a text scaled to length 1, by its product with the centroid."""
    own, cosine = (1.0, product / length) if length > 0.0 else (0.0, 0.0)
    half = 0.5 * gamma * max(0.0, own + square - 2.0 * cosine)
    return -half - np.log1p(np.exp(-half))


@tight
def margin_of(score: float, label: Any, centroids: Centroids, length: float, columns: Any, dense: F32) -> float:
    """The two scores joined: alpha log(tree score) + (1 - alpha) near; `length` is that of the text's row."""
    if len(centroids.square) == 0:
        return np.log(score)
    first, end = np.uint64(centroids.ptr[label]), np.uint64(centroids.ptr[label + 1])
    product = dot(centroids.features, centroids.values, first, end, columns, dense)
    close = near(product, length, np.float64(centroids.square[label]), centroids.gamma)
    return centroids.alpha * np.log(score) + (1.0 - centroids.alpha) * close


@kernel
def _block(X: Rows, start: int, stop: int, trees: Trees, targets: Targets, centroids: Centroids, width: int) -> Any:
    n_labels = len(targets.gain)
    dense, votes, touched = np.zeros(width, np.float32), np.zeros(n_labels), np.empty(n_labels, np.int32)
    ptr, labels, margins, used = (
        np.zeros(stop - start + 1, np.int64),
        np.empty(4096, np.int32),
        np.empty(4096, np.float32),
        0,
    )
    for row in range(start, stop):
        columns = X.indices[X.indptr[row] : X.indptr[row + 1]]
        square = 0.0
        for p in range(X.indptr[row], X.indptr[row + 1]):
            dense[X.indices[p]] = X.values[p]
            square += np.float64(X.values[p]) * np.float64(X.values[p])
        n = _votes(trees, targets, columns, dense, votes, touched)
        if used + n > len(labels):
            wider, longer = np.empty(2 * (used + n), np.int32), np.empty(2 * (used + n), np.float32)
            wider[:used], longer[:used] = labels[:used], margins[:used]
            labels, margins = wider, longer
        found = np.sort(touched[:n])
        for k in range(n):
            score = votes[found[k]] / len(trees.roots)
            votes[found[k]] = 0.0
            labels[used] = found[k]
            margins[used] = margin_of(score, found[k], centroids, np.sqrt(square), columns, dense)
            used += 1
        ptr[row - start + 1] = used
        for column in columns:
            dense[column] = np.float32(0)
    return ptr, labels[:used].copy(), margins[:used].copy()


def rank_labels(X: Rows, width: int, trees: Trees, targets: Targets, centroids: Centroids) -> tuple[Any, Any, F32]:
    """(pointers, labels ascending, margins) of the labels that the leaves name, for each row of X; `width` columns."""
    parts = run(lambda a, b: _block(X, a, b, trees, targets, centroids, width), blocks(len(X.indptr) - 1, BLOCK))
    lengths = [np.diff(part[0]) for part in parts]
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate([np.zeros(0, np.int64), *lengths]))])
    labels = np.concatenate([np.zeros(0, np.int32), *(part[1] for part in parts)])
    return indptr, labels, np.concatenate([np.zeros(0, np.float32), *(part[2] for part in parts)])
