"""Clusters, maps and search of AnnexML, each against its slow twin."""

import numpy as np
import pytest
from scipy import sparse

from treetop.assemble.annex import _learner, label_graph, smoothed_clusters
from treetop.kernels.annex import slow
from treetop.kernels.annex.clusters import best_clusters, even_out, learn_clusters
from treetop.kernels.annex.embedding import Learning, gradients, learn_map, unit_projections
from treetop.kernels.annex.search import Search, linked, nearest
from treetop.kernels.runtime import threads
from treetop.kernels.sparse import rows_of

HOW = Learning(width=8, epochs=4, negatives=5)


def data(seed, n=300, features=40, labels=15):
    """Rows whose features go with their labels; one without features, one without labels."""
    random = np.random.default_rng(seed)
    Y = sparse.random(n, labels, 0.12, "csr", np.float32, random, lambda size: np.ones(size)).tolil()
    Y[1] = 0
    Y = Y.tocsr()
    Y.eliminate_zeros()
    X = (Y @ sparse.random(labels, features, 0.2, "csr", np.float32, random)).tolil()
    X = (X + sparse.random(n, features, 0.05, "csr", np.float32, random)).tolil()
    X[2] = 0
    X = X.tocsr().astype(np.float32)
    X.eliminate_zeros()
    X.sort_indices()
    return X, Y


def test_graph_has_the_nearest_by_labels():
    _, Y = data(0, n=60)
    graph = label_graph(Y, 5, seed=3)
    dense = Y.toarray()
    unit = dense / np.maximum(np.linalg.norm(dense, axis=1, keepdims=True), 1e-9)
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -1)
    for row, near in enumerate(graph):
        near = near[near >= 0]
        best = np.sort(cosines[row])[::-1][:5]
        best = best[best > 0]
        assert row not in near and len(set(near.tolist())) == len(near)
        assert np.allclose(np.sort(cosines[row, near])[::-1], best, atol=1e-6)
    assert (graph[1] == -1).all()
    assert not np.array_equal(graph, label_graph(Y, 5, seed=4))  # ties at random
    few = label_graph(Y, 5, seed=3, most=2)
    assert ((few >= 0).sum(1) <= (graph >= 0).sum(1)).all() and (few >= 0).any()


def test_steps_to_clusters_are_those_of_the_twin():
    X = data(1)[0][:1]
    targets = np.array([2], np.int32)
    W, _ = learn_clusters(rows_of(X), targets, (40, 4), np.uint64(5), 3, 0.1)
    dense, slow_w, squares = X.toarray()[0].astype(np.float64), np.zeros((40, 4)), np.full((40, 4), 1e-2)
    for _ in range(3):
        slow_w, squares = slow.step_to_cluster(dense, slow_w, squares, 2, 0.1)
    assert np.allclose(W, slow_w, atol=1e-5)


def test_classifier_learns_clusters_and_evens_their_sizes():
    X, Y = data(2)
    targets = smoothed_clusters(X, label_graph(Y, 5, 0), 2, seed=1)
    assert np.bincount(targets).tolist() == [75] * 4
    W, penalty = learn_clusters(rows_of(X), targets, (40, 4), np.uint64(1), 10, 0.1)
    found = best_clusters(rows_of(X), W, penalty)
    assert (found == targets).mean() > 0.5 and np.bincount(found, minlength=4).max() < 110
    assert np.array_equal(penalty, even_out(rows_of(X), W, 30))
    dense = X.toarray() @ W - penalty
    assert (found == dense.argmax(1)).mean() > 0.99
    lopsided = W.copy()
    lopsided[:, 1] += 0.5
    assert np.bincount(best_clusters(rows_of(X), lopsided, np.zeros(4, np.float32)), minlength=4).max() > 150
    even = even_out(rows_of(X), lopsided, 30)
    assert np.bincount(best_clusters(rows_of(X), lopsided, even), minlength=4).max() < 110


def test_gradients_are_those_of_the_loss():
    random = np.random.default_rng(0)
    E = random.normal(size=(6, 5)).astype(np.float32)
    G, cosines = np.empty((6, 5), np.float32), np.empty(6, np.float32)
    gradients(E, np.linalg.norm(E, axis=1).astype(np.float32), 6, 7.0, G, cosines)
    for i in range(6):
        for k in range(5):
            step = np.zeros((6, 5))
            step[i, k] = 1e-5
            slope = (slow.loss(E + step, 7.0) - slow.loss(E - step, 7.0)) / 2e-5
            assert G[i, k] == pytest.approx(slope, abs=2e-3)


def test_map_brings_neighbours_together():
    X, Y = data(3)
    graph = label_graph(Y, 5, 0)
    ends = np.concatenate([[0], np.cumsum((graph >= 0).sum(1))]).astype(np.int64)
    near = graph[graph >= 0].astype(np.int64)
    rows = np.repeat(np.arange(len(graph)), np.diff(ends))

    def cosine(epochs):
        V = learn_map(rows_of(X), ends, near, 40, np.uint64(1), HOW._replace(epochs=epochs))
        vectors = unit_projections(rows_of(X), V)
        assert np.allclose(np.linalg.norm(vectors, axis=1), np.diff(X.indptr) > 0, atol=1e-5)
        together = (vectors[rows] * vectors[near]).sum(1).mean()
        return together - (vectors @ vectors.T).mean()

    assert cosine(5) > cosine(0) + 0.1
    again = [learn_map(rows_of(X), ends, near, 40, np.uint64(9), HOW) for _ in range(2)]
    assert np.array_equal(*again)


def learner(X, Y, degree=6, depth=1):
    graph = label_graph(Y, 5, 0)
    targets = smoothed_clusters(X, graph, depth, seed=1)
    found = learn_clusters(rows_of(X), targets, (X.shape[1], 1 << depth), np.uint64(1), 5, 0.1)
    return _learner(X, graph, found, 4, degree, HOW)


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_search_finds_nearly_all_that_comparing_all_does(depth):
    X, Y = data(4)
    made, how = learner(X, Y, depth=depth), Search(k=10, epsilon=0.3)
    queries = sparse.vstack([X, data(5)[0]]).tocsr().astype(np.float32)
    found, cosines = nearest(rows_of(queries), made, how)
    exact, best = nearest(rows_of(queries), made, how, exact=True)
    dense, hits, wanted = queries.toarray().astype(np.float64), 0, 0
    for row in range(len(dense)):
        twin = slow.nearest(dense[row], made, 10)
        assert np.allclose(best[row][exact[row] >= 0], [c for _, c in twin], atol=1e-4)
        assert (np.diff(cosines[row][found[row] >= 0]) <= 0).all()
        hits += len({*found[row].tolist()} & {*exact[row].tolist()} - {-1})
        wanted += len({*exact[row].tolist()} - {-1})
    assert hits > 0.95 * wanted > 0
    assert (found[2] == -1).all()  # no features


def test_every_vector_is_linked_and_reached():
    X, Y = data(6)
    made = learner(X, Y, degree=2, depth=0)
    n = len(made.docs)
    pairs = {(i, j) for i in range(n) for j in made.links[made.link_ptr[i] : made.link_ptr[i + 1]].tolist()}
    assert all((j, i) in pairs and i != j for i, j in pairs)
    reached, front = {0}, [0]
    while front:
        node = front.pop()
        fresh = {*made.links[made.link_ptr[node] : made.link_ptr[node + 1]].tolist()} - reached
        reached |= fresh
        front += fresh
    assert reached == set(range(n))
    assert linked(np.zeros((0, 4), np.float32), 3)[0].tolist() == [0]
    assert linked(np.ones((1, 4), np.float32), 3)[1].tolist() == []
    ptr, links = linked(np.ones((5, 4), np.float32), 9)  # all tied, fewer than the degree
    assert np.diff(ptr).tolist() == [4] * 5 and len(links) == 20


def test_same_bits_for_any_batch_and_threads():
    X, Y = data(7)
    with threads.limited(1):
        made = learner(X, Y, depth=2)
        one = nearest(rows_of(X), made, Search())
    with threads.limited(3):
        again = learner(X, Y, depth=2)
        other = nearest(rows_of(X), made, Search())
    assert all(np.array_equal(a, b) for a, b in zip(made, again, strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    for row in (0, 100, 299):
        found, cosines = nearest(rows_of(X[row]), made, Search())
        assert np.array_equal(found[0], one[0][row]) and np.array_equal(cosines[0], one[1][row])
