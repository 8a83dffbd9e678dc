"""Gradient-boosted symmetric trees for a binary target: one (feature, cut) per depth, so a tree is a small table.

Log loss, second-order leaf values, features in up to 256 bins. In a feature marked as monotone the margin never falls
as the feature grows: while a tree grows, a cut earns nothing in leaves where it would break the rule, and leaf values
that still break it are pooled. One thread, rows in order: the bits depend on nothing else.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treetop.kernels.runtime import threads
from treetop.kernels.runtime.compile import kernel

BLOCK = 1 << 14  # rows that a thread takes at a time
LANE = 1024  # of them scored side by side


class Boosting(NamedTuple):
    """How trees are grown."""

    trees: int = 150
    depth: int = 4
    rate: float = 0.1
    l2: float = 10.0
    least: float = 5.0  # second derivatives on either side of a cut


class Trees(NamedTuple):
    """Margin of a row: base + sum over trees of leaf[t, i], bit d of i saying whether feature[t, d] > cut[t, d]."""

    base: float
    feature: NDArray[np.int32]  # (trees, depth)
    cut: NDArray[np.uint8]  # (trees, depth)
    leaf: NDArray[np.float32]  # (trees, 2 ** depth)


def boost(
    X: NDArray[np.uint8],
    y: NDArray[np.float32],
    weight: NDArray[np.float32],
    monotone: NDArray[np.bool_],
    how: Boosting,
) -> Trees:
    """Trees over binned rows `X` (rows, features); with nothing to learn from there are none."""
    total, hits = float(weight.sum()), float((weight * y).sum())
    base = float(np.log((hits + 0.5) / (total - hits + 0.5)))
    made = Trees(
        base,
        np.zeros((how.trees, how.depth), np.int32),
        np.full((how.trees, how.depth), 255, np.uint8),
        np.zeros((how.trees, 1 << how.depth), np.float32),
    )
    margin = np.full(len(X), base, np.float64)
    grown = _boost(np.ascontiguousarray(X), y, weight, monotone, margin, tuple(how), made.feature, made.cut, made.leaf)
    return Trees(base, made.feature[:grown], made.cut[:grown], made.leaf[:grown])


def binned(X: NDArray[np.float32], edges: NDArray[np.float32]) -> NDArray[np.uint8]:
    """(rows, features) the number of a feature's `edges` (features, cuts) below each value."""
    made = np.empty(X.shape, np.uint8)

    def block(start: int, stop: int) -> None:
        _binned(X[start:stop], edges, made[start:stop])

    threads.run(block, threads.blocks(len(X), BLOCK))
    return made


@kernel
def _binned(X: Any, edges: Any, made: Any) -> None:
    for f in range(X.shape[1]):
        for i in range(X.shape[0]):
            made[i, f] = np.searchsorted(edges[f], X[i, f])


def margins(X: NDArray[np.uint8], trees: Trees) -> NDArray[np.float32]:
    """(rows,) margins of binned rows."""
    made = np.full(len(X), trees.base, np.float32)

    def block(start: int, stop: int) -> None:
        _margins(X[start:stop], trees.feature, trees.cut, trees.leaf, made[start:stop])

    threads.run(block, threads.blocks(len(X), BLOCK))
    return made


@kernel
def _margins(X: Any, feature: Any, cut: Any, leaf: Any, made: Any) -> None:
    """Tree by tree over a thousand rows, whose columns lie one behind the other: comparisons run side by side."""
    columns, place, total = np.empty((X.shape[1], LANE), np.uint8), np.empty(LANE, np.uint16), np.empty(LANE)
    for start in range(0, X.shape[0], LANE):
        n = min(LANE, X.shape[0] - start)
        for i in range(n):
            for f in range(X.shape[1]):
                columns[f, i] = X[start + i, f]
        total[:] = 0.0
        for t in range(feature.shape[0]):
            place[:] = 0
            for d in range(feature.shape[1]):
                bit, at, column = np.uint16(1 << d), cut[t, d], columns[feature[t, d]]
                for i in range(LANE):
                    place[i] |= bit if column[i] > at else np.uint16(0)
            for i in range(n):
                total[i] += leaf[t, place[i]]
        for i in range(n):
            made[start + i] += np.float32(total[i])


@kernel
def _boost(X: Any, y: Any, weight: Any, monotone: Any, margin: Any, how: Any, feature: Any, cut: Any, leaf: Any) -> Any:
    trees, depth, rate, l2, least = how
    n, width = X.shape
    place, slope, curve = np.zeros(n, np.int32), np.zeros(n), np.zeros(n)
    slopes, curves = np.zeros((1 << depth, width, 256)), np.zeros((1 << depth, width, 256))
    for t in range(trees):
        for i in range(n):
            p = 1.0 / (1.0 + np.exp(-margin[i]))
            slope[i], curve[i], place[i] = weight[i] * (y[i] - p), weight[i] * max(p * (1.0 - p), 1e-6), 0
        for d in range(depth):
            _histograms(X, place, slope, curve, slopes[: 1 << d], curves[: 1 << d])
            best, chosen, at = 1e-6, -1, 255
            for f in range(width):
                gain, where = _best_cut(slopes[: 1 << d, f], curves[: 1 << d, f], monotone[f], l2, least)
                if gain > best:
                    best, chosen, at = gain, f, where
            if chosen < 0:
                if d == 0:
                    return t
                break  # cuts at 255 leave the remaining bits at 0
            feature[t, d], cut[t, d] = chosen, at
            for i in range(n):
                if X[i, chosen] > at:
                    place[i] |= 1 << d
        _leaves(place, slope, curve, feature[t], cut[t], monotone, rate, l2, leaf[t])
        for i in range(n):
            margin[i] += leaf[t, place[i]]
    return trees


@kernel
def _histograms(X: Any, place: Any, slope: Any, curve: Any, slopes: Any, curves: Any) -> None:
    slopes[:], curves[:] = 0.0, 0.0
    for i in range(X.shape[0]):
        for f in range(X.shape[1]):
            slopes[place[i], f, X[i, f]] += slope[i]
            curves[place[i], f, X[i, f]] += curve[i]


@kernel
def _best_cut(slopes: Any, curves: Any, monotone: bool, l2: float, least: float) -> Any:
    """(gain, bin) of the best cut of one feature, the same in every leaf."""
    gains = np.zeros(255)
    for v in range(slopes.shape[0]):
        g, h = slopes[v].sum(), curves[v].sum()
        left, low = 0.0, 0.0
        for b in range(255):
            left += slopes[v, b]
            low += curves[v, b]
            right, high = g - left, h - low
            if low < least or high < least:
                continue
            if monotone and left / (low + l2) > right / (high + l2):
                continue
            gains[b] += left * left / (low + l2) + right * right / (high + l2) - g * g / (h + l2)
    at = int(np.argmax(gains))
    return gains[at], at


@kernel
def _leaves(
    place: Any, slope: Any, curve: Any, feature: Any, cut: Any, monotone: Any, rate: float, l2: float, leaf: Any
) -> None:
    """Newton steps of the leaves, pooled until none breaks a monotone feature."""
    n, depth = leaf.shape[0], feature.shape[0]
    g, h = np.zeros(n), np.zeros(n)
    for i in range(place.shape[0]):
        g[place[i]] += slope[i]
        h[place[i]] += curve[i]
    value = g / (h + l2)
    for _ in range(1000):
        broken = False
        for d in range(depth):
            if cut[d] == 255 or not monotone[feature[d]]:
                continue
            for low in range(n):
                high = low | (1 << d)
                if high != low and value[low] > value[high] + 1e-12:
                    a, b = h[low] + l2, h[high] + l2
                    value[low] = value[high] = (a * value[low] + b * value[high]) / (a + b)
                    broken = True
        if not broken:
            break
    for d in range(depth):  # whatever rounding left
        if cut[d] < 255 and monotone[feature[d]]:
            for high in range(n):
                if high >> d & 1:
                    value[high] = max(value[high], value[high ^ (1 << d)])
    for v in range(n):
        leaf[v] = np.float32(rate * value[v])
