"""Why a text has a label by a forest: what each of its features adds to the label's tree score.

The share of a label changes from node to node on the way to a leaf. Each change is divided among the features (and the
bias) that pulled the text to the side it went to, by the size of their pull; so all of them add up to the tree score.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treetop.kernels.forest.walk import Trees, leaf_of
from treetop.kernels.runtime.compile import kernel
from treetop.kernels.sparse import F32


@kernel
def leaves_of(trees: Trees, columns: Any, values: F32, width: int) -> Any:
    """(trees,) the leaf that a text reaches in each tree."""
    dense, made = np.zeros(width, np.float32), np.empty(len(trees.roots), np.int64)
    for k in range(len(columns)):
        dense[columns[k]] = values[k]
    for tree in range(len(trees.roots)):
        made[tree] = leaf_of(trees, tree, columns, dense)
    return made


@kernel
def _edge(trees: Trees, node: int, side: int) -> int:
    """Where the documents below a node begin (side 0) or end (side 1)."""
    while node >= 0:
        node = trees.children[node, side]
    return trees.leaf_ptr[-1 - node + side]  # type: ignore[no-any-return]


@kernel
def _mean(prefix: Any, first: int, end: int) -> float:
    return (prefix[end] - prefix[first]) / (end - first) if end > first else 0.0  # type: ignore[no-any-return]


@kernel
def _share_out(trees: Trees, node: int, change: float, place: Any, values: F32, parts: Any) -> int:
    """Divide a node's change among those that pulled to the side the text takes; returns the side.

    `place` is 1 + the position of a feature among the text's, or 0; what the bias pulls is the last of `parts`.
    """
    total = np.float64(trees.bias[node])
    for p in range(trees.ptr[node], trees.ptr[node + 1]):
        k = place[trees.features[p]]
        if k > 0:
            total += np.float64(trees.weights[p]) * np.float64(values[k - 1])
    side = 1 if total > 0.0 else 0
    sign = 1.0 if side else -1.0
    pull = max(0.0, sign * np.float64(trees.bias[node]))
    for p in range(trees.ptr[node], trees.ptr[node + 1]):
        k = place[trees.features[p]]
        if k > 0:
            pull += max(0.0, sign * np.float64(trees.weights[p]) * np.float64(values[k - 1]))
    if not pull > 0.0:
        parts[-1] += change
        return side
    parts[-1] += change * max(0.0, sign * np.float64(trees.bias[node])) / pull
    for p in range(trees.ptr[node], trees.ptr[node + 1]):
        k = place[trees.features[p]]
        if k > 0:
            parts[k - 1] += change * max(0.0, sign * np.float64(trees.weights[p]) * np.float64(values[k - 1])) / pull
    return side


@kernel
def shares(trees: Trees, mass: Any, columns: Any, values: F32, width: int) -> Any:
    """(features of the text + 1,) parts of the tree score, the last for biases; and the score without any text.

    `mass` is the gain that each document has by the label.
    """
    place, prefix = np.zeros(width, np.int64), np.zeros(len(trees.docs) + 1)
    for k in range(len(columns)):
        place[columns[k]] = k + 1
    for p in range(len(trees.docs)):
        prefix[p + 1] = prefix[p] + mass[trees.docs[p]]
    parts, base, n = np.zeros(len(columns) + 1), 0.0, len(trees.roots)
    for node in trees.roots:
        first, end = _edge(trees, node, 0), _edge(trees, node, 1)
        here = _mean(prefix, first, end)
        base += here / n
        while node >= 0:
            middle = _edge(trees, trees.children[node, 0], 1)
            sides = _mean(prefix, first, middle), _mean(prefix, middle, end)
            # which side it is depends on the text alone; the change is known once it is
            side = _share_out(trees, node, 0.0, place, values, parts)
            after = sides[1] if side else sides[0]
            _share_out(trees, node, (after - here) / n, place, values, parts)
            first, end = (middle, end) if side else (first, middle)
            here, node = after, trees.children[node, side]
    return parts, base
