import dataclasses

import numpy as np
import pytest
from scipy import sparse

import toy
from treetop.core.config import build
from treetop.core.errors import ConfigError
from treetop.core.texts import Texts
from treetop.kernels import reference
from treetop.labels.graph import (
    ShareConfig,
    WalkConfig,
    counted,
    links,
    neighbours,
    node_graph,
    share_graph,
    share_needs,
    smoothed,
    walk_graph,
    walk_shares,
)
from treetop.labels.pifa import pifa


def small(seed=0, n=30, labels=10):
    rng = np.random.default_rng(seed)
    Y = (rng.random((n, labels)) < 0.2).astype(np.float32)
    Y[:, 4] = 0
    return sparse.csr_matrix(Y), sparse.csr_matrix(rng.random((n, 7)).astype(np.float32))


def test_graph_is_scaled_by_both_degrees_and_holds_every_label_itself():
    Y, _ = small()
    config = WalkConfig(hops=60, restart=0.5, neighbours=3)
    expected = np.zeros((10, 10))
    for label, row in enumerate(reference.walk_visits(Y.toarray(), 60, 0.5, 3, 5)):
        for other, visits in row:
            expected[label, other] = visits
        expected[label, label] = expected[label, label] or 1.0
    expected /= np.sqrt(np.outer(expected.sum(1), expected.sum(0)))
    np.testing.assert_allclose(walk_graph(Y, config, seed=5).toarray(), expected, rtol=1e-5)


def test_head_labels_are_neither_walked_from_nor_visited():
    Y, _ = small()
    counts = np.bincount(Y.indices, minlength=10)
    most = int(np.sort(counts)[-3])
    heads = np.flatnonzero(counts > most)
    assert len(heads)
    plain, made = (walk_graph(Y, WalkConfig(hops=60, head_threshold=head), seed=5).toarray() for head in (0, most))
    for label in heads:
        assert np.flatnonzero(made[label]).tolist() == np.flatnonzero(made[:, label]).tolist() == [label]
        assert made[label, label] == 1.0 and (plain[label] > 0).sum() > 1
    assert links(sparse.csr_matrix(made)) == 10 - len(heads) - 1  # one label has no texts
    alone = sparse.identity(4, np.float32, format="csr")
    assert links(walk_graph(alone, WalkConfig(), seed=0)) == 0


def test_links_of_nodes_are_those_of_their_labels():
    G = walk_graph(small()[0], WalkConfig(hops=60), seed=5)
    node, dense = np.arange(10) % 3, G.toarray()
    expected = np.array([[dense[node == a][:, node == b].sum() for b in range(4)] for a in range(4)])
    scale = np.sqrt(np.outer(expected.sum(1), expected.sum(0)))
    expected = np.divide(expected, scale, out=np.zeros_like(expected), where=scale > 0)
    np.testing.assert_allclose(node_graph(G, node, 4).toarray(), expected, atol=1e-6)


def test_smoothing_is_a_product_with_unit_rows():
    Y, X = small()
    Z, G = pifa(X, Y), walk_graph(Y, WalkConfig(), seed=0)
    made = smoothed(Z, G).toarray()
    plain = G.toarray() @ Z.toarray()
    plain /= np.maximum(np.linalg.norm(plain, axis=1, keepdims=True), 1e-12)
    np.testing.assert_allclose(made, plain, atol=1e-5)
    assert not made[4].any()


def test_smoothing_passes_on_the_weightiest_words_of_a_label():
    Y, X = small()
    Z, G = pifa(X, Y), walk_graph(Y, WalkConfig(), seed=0)
    cut = Z.toarray()
    for row in cut:
        row[np.argsort(-row, kind="stable")[3:]] = 0.0
    plain = G.toarray() @ cut
    plain /= np.maximum(np.linalg.norm(plain, axis=1, keepdims=True), 1e-12)
    assert (np.diff(Z.indptr) > 3).any()
    np.testing.assert_allclose(smoothed(Z, G, words=3).toarray(), plain, atol=1e-5)


def test_shares_count_documents_without_barred_pairs_and_zeros():
    data = toy.dataset(n=50)
    rows = np.vstack([data.Y.toarray(), np.ones((1, 40))])
    rows[0, :3] = 0.3  # soft targets of a document count as labels it has
    Y = sparse.csr_matrix(rows.astype(np.float32))
    Y.data[5] = 0.0  # stored, but no target
    pairs = np.array([[1, int(Y[1].indices[0])], [50, 2], [4, 39]])
    data = dataclasses.replace(
        data, Y=Y, texts=Texts.of([*data.texts, "all"]), filter_pairs=pairs, roles=np.array([0] * 50 + [1], np.uint8)
    )
    plain = Y.toarray()[:50]
    plain[1, pairs[0, 1]] = 0
    made = counted(data)
    assert np.array_equal(made.toarray(), (plain > 0).astype(np.float32))
    G = share_graph(made, ShareConfig(delta=0.2))
    np.testing.assert_allclose(G.toarray(), reference.label_shares(plain, 0.2), rtol=1e-6)
    assert np.array_equal(data.Y.toarray(), Y.toarray())  # left as it was


def test_forecast_holds_entries():
    rng = np.random.default_rng(0)
    Y = sparse.random(400, 120, 0.1, "csr", dtype=np.float32, random_state=rng)
    Y.data[:] = 1
    for config in (ShareConfig(), ShareConfig(delta=0.0)):
        needs, G = share_needs(Y, config), share_graph(Y, config)
        assert G.nnz <= needs.entries <= 2 * G.nnz  # all labels are in the sample here
        assert needs.memory > 16 * G.nnz and needs.time > 0


def test_walk_shares_hold_the_diagonal_and_stay_below_one():
    Y, _ = small()
    G = walk_shares(Y, WalkConfig(hops=60, restart=0.5, neighbours=3), seed=5).toarray()
    for label, row in enumerate(reference.walk_visits(Y.toarray(), 60, 0.5, 3, 5)):
        expected = np.zeros(10)
        for other, visits in row:
            expected[other] = visits / row[0][1]
        expected[label] = 1.0
        np.testing.assert_allclose(G[label], expected, rtol=1e-6)
    assert G[4].tolist() == np.eye(10)[4].tolist()  # never seen


def test_neighbours_of_a_label():
    Y = sparse.csr_matrix(np.array([[1, 1, 0, 1], [1, 1, 0, 0], [1, 0, 0, 1], [0, 0, 0, 1], [1, 0, 0, 0]], np.float32))
    found = neighbours(Y, 0)
    assert found == [(1, 2, 0.5, 1.0), (3, 2, 0.5, pytest.approx(2 / 3))]
    assert neighbours(Y, 2) == [] and len(neighbours(Y, 0, 1)) == 1


def test_walks_that_hardly_end_are_refused():
    with pytest.raises(ConfigError, match=r"^walk\.hops: 1000001 is out of range\. Allowed: 1 to 1000000\."):
        build(WalkConfig, {"hops": 10**6 + 1}, path="walk")
