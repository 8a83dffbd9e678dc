"""Grow one tree over documents: split, learn a sparse separator, send documents by its sign, and go on with each half.

Nodes are numbered from the root down, left before right, and leaves from left to right, so that a leaf's documents lie
together. A child is the number of a node, or -1 - the number of a leaf. Twin: `slow.py`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treetop.kernels.forest.sides import Gains, coin_sides, split
from treetop.kernels.linear.l1_logistic import Columns, Rules, solve
from treetop.kernels.runtime.compile import kernel
from treetop.kernels.sparse import F32, U32, Rows, grown, scramble


class Plan(NamedTuple):
    """How trees are grown."""

    max_leaf: int = 10
    max_depth: int = 60
    cost: float = 1.0
    balance: bool = False  # whether both sides have the same total cost
    bias: float = 1.0  # value of the constant feature; 0: none
    threshold: float = 0.01  # weights below are dropped
    rounds: int = 1  # how often sides and separator are found in turn
    passes: int = 20  # over rankings and sides in a round
    rules: Rules = Rules()


class Tree(NamedTuple):
    """A tree as data; `children[i]` = (left, right), `docs` are those of all leaves one after the other."""

    children: Any  # (nodes, 2) int32
    bias: F32  # (nodes,)
    ptr: Any  # (nodes + 1,) int64
    features: Any  # int32, ascending in each node
    weights: F32
    leaf_ptr: Any  # (leaves + 1,) int64
    docs: Any  # int32


class Scratch(NamedTuple):
    """One per thread, left as it was: zeros for every feature and label."""

    place: U32  # (n_features,)
    mass: Any  # (n_features,) float64
    weight: F32  # (n_features,)
    label: U32  # (n_labels,)


def new_scratch(n_features: int, n_labels: int) -> Scratch:
    """Scratch for one thread."""
    place, label = np.zeros(n_features, np.uint32), np.zeros(n_labels, np.uint32)
    return Scratch(place, np.zeros(n_features), np.zeros(n_features, np.float32), label)


@kernel
def local_gains(Y: Rows, ideal: F32, docs: U32, place: U32) -> Gains:
    """The labels of a node's documents, numbered anew; `place` is zero before and after."""
    n, nnz = len(docs), np.uint64(0)
    for doc in docs:
        nnz += Y.indptr[doc + np.uint32(1)] - Y.indptr[doc]
    seen, n_seen = np.empty(nnz, np.uint32), 0
    for doc in docs:
        for p in range(Y.indptr[doc], Y.indptr[doc + np.uint32(1)]):
            label = Y.indices[p]
            if place[label] == np.uint32(0):
                place[label] = np.uint32(1)
                seen[n_seen] = label
                n_seen += 1
    seen = np.sort(seen[:n_seen])
    for k in range(n_seen):
        place[seen[k]] = np.uint32(k)
    gains = Gains(
        np.zeros(n + 1, np.uint32), np.empty(nnz, np.uint32), np.empty(nnz, np.float32), np.empty(n, np.float32), n_seen
    )
    at = np.uint32(0)
    for i in range(n):
        doc = docs[i]
        for p in range(Y.indptr[doc], Y.indptr[doc + np.uint32(1)]):
            gains.labels[at], gains.values[at] = place[Y.indices[p]], Y.values[p]
            at += np.uint32(1)
        gains.ptr[i + 1], gains.ideal[i] = at, ideal[doc]
    for label in seen:
        place[label] = np.uint32(0)
    return gains


@kernel
def local_columns(X: Rows, docs: U32, side: F32, bias: float, scratch: Scratch) -> Any:
    """(columns, their features): features of a node's documents that can have a weight at all, and the constant last.

    |derivative| < sum of cost |x| by a feature; where this is at most 1, its weight is 0 at the minimum.
    """
    place, mass = scratch.place, scratch.mass
    nnz = np.uint64(0)
    for doc in docs:
        nnz += X.indptr[doc + np.uint32(1)] - X.indptr[doc]
    seen, n_seen = np.empty(nnz, np.uint32), 0
    for i in range(len(docs)):
        for p in range(X.indptr[docs[i]], X.indptr[docs[i] + np.uint32(1)]):
            f = X.indices[p]
            if place[f] == np.uint32(0):
                seen[n_seen] = f
                n_seen += 1
            place[f] += np.uint32(1)
            mass[f] += abs(np.float64(side[i])) * abs(np.float64(X.values[p]))
    features, ptr, m, total = np.empty(n_seen, np.uint32), np.zeros(n_seen + 2, np.uint32), 0, np.uint32(0)
    for k in range(n_seen):
        f = seen[k]
        count, place[f] = place[f], np.uint32(0)
        if mass[f] > 1.0:
            features[m], ptr[m] = f, total
            total += count
            m += 1
            place[f] = np.uint32(m)
        mass[f] = 0.0
    ptr[m] = total
    size = np.int64(total) + (len(docs) if bias > 0 else 0)
    rows, values, ends = np.empty(size, np.uint32), np.empty(size, np.float32), ptr[: m + 1].copy()
    for i in range(len(docs)):
        for p in range(X.indptr[docs[i]], X.indptr[docs[i] + np.uint32(1)]):
            k = place[X.indices[p]]
            if k > 0:
                at = ends[k - np.uint32(1)]
                rows[at], values[at] = np.uint32(i), X.values[p]
                ends[k - np.uint32(1)] += np.uint32(1)
    if bias > 0:
        for i in range(len(docs)):
            rows[total + np.uint32(i)], values[total + np.uint32(i)] = np.uint32(i), np.float32(bias)
        ptr[m + 1] = total + np.uint32(len(docs))
    for k in range(m):
        place[features[k]] = np.uint32(0)
    return Columns(ptr[: m + 1 + (bias > 0)], rows, values), features[:m]


@kernel
def side_costs(n: int, n_positive: int, plan: Plan) -> Any:
    """Cost of a document on the negative and on the positive side."""
    if plan.balance:
        return plan.cost * n / (2.0 * (n - n_positive)), plan.cost * n / (2.0 * n_positive)
    return plan.cost, plan.cost


@kernel
def separator(X: Rows, docs: U32, side: Any, n_positive: int, plan: Plan, scratch: Scratch) -> Any:
    """(features ascending, weights, bias) of the separator of two sides."""
    n = len(docs)
    cost = side_costs(n, n_positive, plan)
    signed = np.empty(n, np.float32)
    for i in range(n):
        signed[i] = np.float32(cost[1] if side[i] > 0 else -cost[0])
    columns, features = local_columns(X, docs, signed, plan.bias, scratch)
    rarer = max(min(n_positive, n - n_positive), 1) / n
    w = solve(columns, signed, Rules(plan.rules.eps * rarer, plan.rules.rounds, plan.rules.passes, plan.rules.halvings))
    kept = 0
    for k in range(len(features)):
        kept += abs(w[k]) >= plan.threshold and w[k] != 0.0
    places = np.empty(kept, np.int64)
    kept = 0
    for k in range(len(features)):
        if abs(w[k]) >= plan.threshold and w[k] != 0.0:
            places[kept] = (np.int64(features[k]) << 32) | k
            kept += 1
    places = np.sort(places)
    found, weights = np.empty(kept, np.int32), np.empty(kept, np.float32)
    for k in range(kept):
        found[k], weights[k] = places[k] >> 32, np.float32(w[places[k] & 0xFFFFFFFF])
    return found, weights, np.float32(w[len(features)] * plan.bias if plan.bias > 0 else 0.0)


@kernel
def margins(X: Rows, docs: U32, found: Any, weights: F32, bias: Any, weight: F32) -> Any:
    """w.x + b of a node's documents; `weight` is zero before and after."""
    for k in range(len(found)):
        weight[found[k]] = weights[k]
    made = np.empty(len(docs))
    for i in range(len(docs)):
        total = np.float64(bias)
        for p in range(X.indptr[docs[i]], X.indptr[docs[i] + np.uint32(1)]):
            total += np.float64(weight[X.indices[p]]) * np.float64(X.values[p])
        made[i] = total
    for k in range(len(found)):
        weight[found[k]] = np.float32(0)
    return made


@kernel
def split_node(X: Rows, Y: Rows, ideal: F32, discount: Any, docs: U32, state: Any, plan: Plan, scratch: Scratch) -> Any:
    """(whether it worked, features, weights, bias, margins of the documents)."""
    gains = local_gains(Y, ideal, docs, scratch.label)
    side, pull = coin_sides(len(docs), state), np.zeros(len(docs))
    found, weights = np.empty(0, np.int32), np.empty(0, np.float32)
    bias, margin, works = np.float32(0), np.zeros(len(docs)), False
    for _ in range(plan.rounds):
        n_positive = split(gains, side, pull, discount, plan.passes)
        if n_positive == 0 or n_positive == len(docs):
            return works, found, weights, bias, margin
        learned = separator(X, docs, side, n_positive, plan, scratch)
        here = margins(X, docs, learned[0], learned[1], learned[2], scratch.weight)
        below_cost, above_cost = side_costs(len(docs), n_positive, plan)
        above = 0
        for i in range(len(docs)):
            above += here[i] > 0.0
            both = np.log1p(np.exp(-abs(here[i])))  # what the positive side saves of the logistic loss
            pull[i] = below_cost * (both + max(0.0, here[i])) - above_cost * (both + max(0.0, -here[i]))
        if above == 0 or above == len(docs):
            return works, found, weights, bias, margin
        works, margin = True, here
        found, weights, bias = learned
    return works, found, weights, bias, margin


@kernel
def _halve(docs: U32, margin: Any) -> int:
    """Sort documents into those below and above the separator, in place and stable; returns how many are below."""
    spare, below, above = docs.copy(), 0, 0
    for i in range(len(docs)):
        if not margin[i] > 0.0:
            docs[below] = spare[i]
            below += 1
    for i in range(len(docs)):
        if margin[i] > 0.0:
            docs[below + above] = spare[i]
            above += 1
    return below


@kernel
def grow(X: Rows, Y: Rows, ideal: F32, discount: Any, seed: Any, plan: Plan, scratch: Scratch) -> Tree:
    """A tree over all rows of X."""
    n = len(X.indptr) - 1
    docs = np.arange(n).astype(np.uint32)
    stack = np.empty((2 * plan.max_depth + 4, 5), np.int64)  # first, end, depth, parent, side of it
    stack[0], height = np.array([0, n, 0, -1, 0]), 1
    children, biases, ptr = np.empty((1024, 2), np.int32), np.empty(1024, np.float32), np.zeros(1025, np.int64)
    features, weights = np.empty(4096, np.int32), np.empty(4096, np.float32)
    leaf_ptr, nodes, leaves, used = np.zeros(1025, np.int64), 0, 0, 0
    while height > 0:
        height -= 1
        first, end, depth, parent, side = stack[height]
        works = False
        if end - first > plan.max_leaf and depth < plan.max_depth:
            state = scramble(np.uint64(seed) * np.uint64(0x2545F4914F6CDD1D) + np.uint64(nodes) + np.uint64(1))
            works, found, weight, bias, margin = split_node(
                X, Y, ideal, discount, docs[first:end], state, plan, scratch
            )
        if parent >= 0:
            children[parent, side] = nodes if works else -1 - leaves
        if not works:
            leaf_ptr = grown(leaf_ptr, leaves + 2)
            leaves += 1
            leaf_ptr[leaves] = end
            continue
        below = _halve(docs[first:end], margin)
        if nodes == len(children):
            wider = np.empty((2 * len(children), 2), np.int32)
            wider[:nodes] = children
            children = wider
        biases, ptr = grown(biases, nodes + 1), grown(ptr, nodes + 2)
        features, weights = grown(features, used + len(found)), grown(weights, used + len(found))
        features[used : used + len(found)], weights[used : used + len(found)] = found, weight
        used += len(found)
        biases[nodes], ptr[nodes + 1] = bias, used
        stack[height] = np.array([first + below, end, depth + 1, nodes, 1])
        stack[height + 1] = np.array([first, first + below, depth + 1, nodes, 0])
        height += 2
        nodes += 1
    return Tree(
        children[:nodes].copy(), biases[:nodes].copy(), ptr[: nodes + 1].copy(), features[:used].copy(),
        weights[:used].copy(), leaf_ptr[: leaves + 1].copy(), docs.astype(np.int32),
    )  # fmt: skip
