"""Trees over documents: sides, growth and the way down, each against its slow twin."""

import numpy as np
import pytest
from scipy import sparse

from treetop.assemble.forest import centroids_of, joined
from treetop.kernels.forest import slow
from treetop.kernels.forest.grow import Plan, Tree, grow, local_gains, new_scratch
from treetop.kernels.forest.sides import coin_sides, split
from treetop.kernels.forest.walk import Centroids, Targets, rank_labels
from treetop.kernels.linear.l1_logistic import Rules
from treetop.kernels.runtime import threads
from treetop.kernels.sparse import rows_of
from treetop.rank.forest import NO_CENTROIDS

PLAN = Plan(max_leaf=3, cost=5.0, rules=Rules(eps=1e-4))


def data(seed, n=80, features=30, labels=12, odd=False):
    """Rows whose features go with their labels; with `odd` some are empty, equal, or huge."""
    random = np.random.default_rng(seed)
    Y = sparse.random(n, labels, 0.15, "csr", np.float32, random, lambda size: np.ones(size))
    X = (Y @ sparse.random(labels, features, 0.3, "csr", np.float32, random)).tocsr()
    X = (X + sparse.random(n, features, 0.05, "csr", np.float32, random)).tocsr().astype(np.float32)
    if odd:
        keep = sparse.diags((np.arange(n) % 7 > 0).astype(np.float32) * np.where(np.arange(n) % 11 == 0, 1e4, 1))
        X, Y = (keep @ X).tocsr().astype(np.float32), Y[np.arange(n) // 2].tocsr()
    X.eliminate_zeros()
    X.sort_indices()
    Y.sort_indices()
    return X, Y


def facts(Y):
    discount = 1.0 / np.log2(np.arange(Y.shape[1] + 1) + 2.0)
    ideal = np.concatenate([[0.0], 1.0 / np.cumsum(discount)]).astype(np.float32)[np.diff(Y.indptr)]
    return ideal, discount


@pytest.mark.parametrize("seed", range(6))
def test_sides_are_those_of_the_twin(seed):
    _, Y = data(seed, odd=seed % 2 == 1)
    ideal, discount = facts(Y)
    gains = local_gains(rows_of(Y), ideal, np.arange(Y.shape[0], dtype=np.uint32), np.zeros(Y.shape[1], np.uint32))
    start = coin_sides(Y.shape[0], np.uint64(seed + 1))
    pull = np.zeros(Y.shape[0]) if seed < 4 else np.random.default_rng(seed).normal(0, 0.2, Y.shape[0])
    ours = start.copy()
    positive = split(gains, ours, pull, discount, 10)
    assert positive == (ours > 0).sum()
    assert np.array_equal(ours, slow.split(Y, ideal, start, pull, discount, 10))
    assert not np.array_equal(ours, start)


@pytest.mark.parametrize("seed", range(4))
def test_tree_is_that_of_the_twin(seed):
    X, Y = data(seed, odd=seed % 2 == 1)
    ideal, discount = facts(Y)
    scratch = new_scratch(X.shape[1], Y.shape[1])
    tree = grow(rows_of(X), rows_of(Y), ideal, discount, np.uint64(seed), PLAN, scratch)
    assert not any(array.any() for array in scratch)
    root, children, separators, leaves = slow.grow(X, Y, ideal, discount, seed, PLAN, scratch)
    assert root == 0 and tree.children.tolist() == children
    for node, (features, weights, bias) in enumerate(separators):
        here = slice(tree.ptr[node], tree.ptr[node + 1])
        assert np.array_equal(tree.features[here], features) and np.array_equal(tree.weights[here], weights)
        assert tree.bias[node] == bias
    spans = zip(tree.leaf_ptr[:-1], tree.leaf_ptr[1:], strict=True)
    assert [tree.docs[a:b].tolist() for a, b in spans] == leaves
    assert sorted(tree.docs.tolist()) == list(range(X.shape[0]))


def forest(X, Y, n_trees=4, plan=PLAN):
    ideal, discount = facts(Y)
    scratch = new_scratch(X.shape[1], Y.shape[1])
    trees = [grow(rows_of(X), rows_of(Y), ideal, discount, np.uint64(t), plan, scratch) for t in range(n_trees)]
    return joined(trees)


def targets(Y, seed=0):
    gain = np.random.default_rng(seed).uniform(1, 9, Y.shape[1]).astype(np.float32)
    return Targets(Y.indptr.astype(np.int64), Y.indices, Y.data, gain)


@pytest.mark.parametrize("tail", [False, True])
@pytest.mark.parametrize("odd", [False, True])
def test_margins_are_those_of_the_twin(tail, odd):
    X, Y = data(1, odd=odd)
    trees = forest(X, Y)
    centroids = centroids_of(X, Y, 0.7, 5.0) if tail else NO_CENTROIDS
    queries = sparse.vstack([X, data(2, odd=odd)[0], sparse.csr_matrix((1, X.shape[1]))]).tocsr().astype(np.float32)
    rows = rows_of(queries)
    indptr, labels, margins = rank_labels(rows, X.shape[1], trees, targets(Y), centroids)
    for row, found in enumerate(slow.rank_labels(rows, trees, targets(Y), centroids)):
        here = slice(indptr[row], indptr[row + 1])
        assert labels[here].tolist() == sorted(found)
        assert np.allclose(margins[here], [found[label] for label in sorted(found)], rtol=1e-4, atol=1e-4)


def test_rows_without_features_or_labels_make_one_leaf():
    X, Y = sparse.csr_matrix((20, 5), dtype=np.float32), sparse.csr_matrix((20, 3), dtype=np.float32)
    ideal, discount = facts(Y)
    tree = grow(rows_of(X), rows_of(Y), ideal, discount, np.uint64(0), PLAN, new_scratch(5, 3))
    assert len(tree.children) == 0 and tree.leaf_ptr.tolist() == [0, 20]
    none = grow(rows_of(X[:0]), rows_of(Y[:0]), ideal, discount, np.uint64(0), PLAN, new_scratch(5, 3))
    indptr, labels, _ = rank_labels(rows_of(X), 5, joined([tree, none]), targets(Y), NO_CENTROIDS)
    assert indptr.tolist() == [0] * 21 and len(labels) == 0


def test_same_bits_for_any_batch_and_threads():
    X, Y = data(3, n=400)
    trees, wanted = forest(X, Y), targets(Y)
    centroids = centroids_of(X, Y, 0.8, 30.0)
    with threads.limited(1):
        indptr, labels, margins = rank_labels(rows_of(X), X.shape[1], trees, wanted, centroids)
    with threads.limited(3):
        again = rank_labels(rows_of(X), X.shape[1], trees, wanted, centroids)
    assert all(np.array_equal(a, b) for a, b in zip((indptr, labels, margins), again, strict=True))
    for row in (0, 7, 399):
        _, ids, alone = rank_labels(rows_of(X[row]), X.shape[1], trees, wanted, centroids)
        here = slice(indptr[row], indptr[row + 1])
        assert np.array_equal(ids, labels[here]) and np.array_equal(alone, margins[here])


def test_a_long_row_is_searched_and_a_short_one_read_with_the_same_sum():
    from treetop.kernels.forest.walk import dot

    random = np.random.default_rng(0)
    features = np.sort(random.choice(5000, 2000, replace=False)).astype(np.int32)
    values = random.normal(size=2000).astype(np.float32)
    columns = np.sort(random.choice(5000, 40, replace=False)).astype(np.uint32)
    dense = np.zeros(5000, np.float32)
    dense[columns] = random.normal(size=40)
    total = 0.0
    for feature, value in zip(features, values, strict=True):
        total += float(value) * float(dense[feature])
    assert dot(features, values, np.uint64(0), np.uint64(2000), columns, dense) == total
    short = dot(features, values, np.uint64(100), np.uint64(300), columns, dense)
    assert short == pytest.approx(float(values[100:300] @ dense[features[100:300]]), rel=1e-5)


def test_centroids_are_means_of_unit_rows():
    X, Y = data(5, odd=True)
    made = centroids_of(X, Y, 0.5, 1.0)
    dense = X.toarray()
    unit = dense / np.maximum(np.linalg.norm(dense, axis=1, keepdims=True), 1e-30)
    for label in range(Y.shape[1]):
        rows = np.flatnonzero(Y.toarray()[:, label])
        mean = unit[rows].mean(0) if len(rows) else np.zeros(X.shape[1])
        here = slice(made.ptr[label], made.ptr[label + 1])
        centroid = np.zeros(X.shape[1])
        centroid[made.features[here]] = made.values[here]
        assert np.allclose(centroid, mean, atol=1e-6) and made.square[label] == pytest.approx(mean @ mean, abs=1e-5)


def test_trees_joined_keep_their_nodes_and_leaves():
    X, Y = data(6)
    ideal, discount = facts(Y)
    scratch = new_scratch(X.shape[1], Y.shape[1])
    trees = [grow(rows_of(X), rows_of(Y), ideal, discount, np.uint64(t), PLAN, scratch) for t in range(3)]
    assert isinstance(trees[0], Tree) and not np.array_equal(trees[0].docs, trees[1].docs)
    none = Centroids(*NO_CENTROIDS)
    whole = rank_labels(rows_of(X), X.shape[1], joined(trees), targets(Y), none)
    parts = [rank_labels(rows_of(X), X.shape[1], joined([tree]), targets(Y), none) for tree in trees]
    mean = sum(_dense(part, Y.shape) for part in parts) / 3
    assert np.allclose(_dense(whole, Y.shape), mean, rtol=1e-5)


def _dense(found, shape):
    indptr, labels, margins = found
    return sparse.csr_matrix((np.exp(margins.astype(np.float64)), labels, indptr), shape).toarray()
