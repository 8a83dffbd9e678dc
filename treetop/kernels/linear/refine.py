"""Linear functions learned further: new rows pull each, and its distance from where it was holds it back.

Minimises 0.5 |w - w0|^2 + sum_i c_i loss(y_i (w.x_i + b)) by dual coordinate descent from w0: the objective of
`descent.py` in which what was learned before stands for the rows it was learned from. The bias, which says how rare a
label is, stays. `refine_slow.py` is the twin.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treetop.kernels.linear.descent import HINGE, LOGISTIC, Settings
from treetop.kernels.runtime.compile import kernel, tight
from treetop.kernels.sparse import F32, Rows

HALVINGS = 30


class Pull(NamedTuple):
    """For each function the rows that pull it: 1 where a row should get the label, else -1; and its costs."""

    rows: Rows
    cost: F32  # (functions,) factor of the costs of the settings


def refine(X: Rows, n_features: int, functions: Rows, bias: F32, pull: Pull, settings: Settings) -> Rows:
    """The functions (rows of weights, features ascending) after the new rows have pulled them."""
    costs = settings.cost_negative, settings.cost_positive, settings.eps, settings.max_passes, settings.threshold
    scratch = np.zeros(n_features, np.float32), np.zeros(n_features, np.uint8)
    return Rows(*_refine(X, functions, bias, pull.rows, pull.cost, settings.loss, costs, scratch))


@tight
def _step(margin: float, old: float, length: float, cost: float, loss: int) -> float:
    """The dual of a row at which its part of the objective is least; `margin` is y (w.x + b)."""
    if loss == LOGISTIC:
        low, high = 0.0, cost
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            if margin + (middle - old) * length + np.log(middle / (cost - middle)) > 0:
                high = middle
            else:
                low = middle
        return 0.5 * (low + high)
    if loss == HINGE:
        return min(max(old - (margin - 1.0) / length, 0.0), cost)
    shift = 0.5 / cost
    return max(old - (margin - 1.0 + shift * old) / (length + shift), 0.0)


@kernel
def _refine(X: Any, functions: Any, bias: Any, pull: Any, factor: Any, loss: int, costs: Any, scratch: Any) -> Any:
    w, seen = scratch
    negative, positive, eps, passes, threshold = costs
    n = len(functions.indptr) - 1
    ends, k = np.zeros(n + 1, np.uint64), 0
    features, values = np.empty(1024, np.uint32), np.empty(1024, np.float32)
    for f in range(n):
        used = _enter(functions, np.uint64(f), w, seen, X, pull)
        first, stop = pull.indptr[f], pull.indptr[f + 1]
        alpha = np.zeros(stop - first)
        for _ in range(passes):
            largest = 0.0
            for p in range(first, stop):
                row, y = pull.indices[p], pull.values[p]
                cost = factor[f] * (positive if y > 0 else negative)
                margin, length = float(bias[f]), 0.0
                for q in range(X.indptr[row], X.indptr[row + 1]):
                    margin += w[X.indices[q]] * X.values[q]
                    length += X.values[q] * X.values[q]
                if length == 0.0 or cost <= 0.0:
                    continue
                old = alpha[p - first]
                new = _step(y * margin, old, length, cost, loss)
                alpha[p - first] = new
                if new != old:
                    largest = max(largest, abs(new - old) * length)
                    for q in range(X.indptr[row], X.indptr[row + 1]):
                        w[X.indices[q]] += np.float32((new - old) * y) * X.values[q]
            if largest < eps * 0.1:
                break
        while k + len(used) > len(features):
            features = np.concatenate((features, np.empty(len(features), np.uint32)))
            values = np.concatenate((values, np.empty(len(values), np.float32)))
        for feature in used:
            if abs(w[feature]) >= threshold:
                features[k], values[k] = feature, w[feature]
                k += 1
            w[feature], seen[feature] = 0.0, 0
        ends[f + 1] = k
    return ends, features[:k].copy(), values[:k].copy()


@kernel
def _enter(functions: Any, f: Any, w: Any, seen: Any, X: Any, pull: Any) -> Any:
    """Write a function into `w`; returns the features that it or one of its rows has, ascending."""
    room = functions.indptr[f + np.uint64(1)] - functions.indptr[f]
    for p in range(pull.indptr[f], pull.indptr[f + np.uint64(1)]):
        room += X.indptr[pull.indices[p] + np.uint32(1)] - X.indptr[pull.indices[p]]
    used, n = np.empty(room, np.uint32), 0
    for q in range(functions.indptr[f], functions.indptr[f + np.uint64(1)]):
        feature = functions.indices[q]
        w[feature], seen[feature], used[n] = functions.values[q], 1, feature
        n += 1
    for p in range(pull.indptr[f], pull.indptr[f + np.uint64(1)]):
        for q in range(X.indptr[pull.indices[p]], X.indptr[pull.indices[p] + np.uint32(1)]):
            feature = X.indices[q]
            if not seen[feature]:
                seen[feature], used[n] = 1, feature
                n += 1
    return np.sort(used[:n])
