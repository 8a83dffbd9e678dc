import numpy as np
from scipy import sparse

from treetop.kernels import reference
from treetop.labels.graph import WalkConfig, smoothed, walk_graph
from treetop.labels.pifa import pifa


def small(seed=0, n=30, labels=10):
    rng = np.random.default_rng(seed)
    Y = (rng.random((n, labels)) < 0.2).astype(np.float32)
    Y[:, 4] = 0
    return sparse.csr_matrix(Y), sparse.csr_matrix(rng.random((n, 7)).astype(np.float32))


def test_graph_is_scaled_by_both_degrees_and_holds_every_label_itself():
    Y, _ = small()
    config = WalkConfig(hops=60, restart=0.5, keep=3)
    expected = np.zeros((10, 10))
    for label, row in enumerate(reference.walk_visits(Y.toarray(), 60, 0.5, 3, 5)):
        for other, visits in row:
            expected[label, other] = visits
        expected[label, label] = expected[label, label] or 1.0
    expected /= np.sqrt(np.outer(expected.sum(1), expected.sum(0)))
    np.testing.assert_allclose(walk_graph(Y, config, seed=5).toarray(), expected, rtol=1e-5)


def test_smoothing_is_a_product_with_unit_rows():
    Y, X = small()
    Z, G = pifa(X, Y), walk_graph(Y, WalkConfig(), seed=0)
    made = smoothed(Z, G).toarray()
    plain = G.toarray() @ Z.toarray()
    plain /= np.maximum(np.linalg.norm(plain, axis=1, keepdims=True), 1e-12)
    np.testing.assert_allclose(made, plain, atol=1e-5)
    assert not made[4].any()
