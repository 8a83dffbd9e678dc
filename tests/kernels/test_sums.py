import numpy as np
import pytest
from scipy import sparse

from treetop.kernels.runtime import threads
from treetop.kernels.sparse import csr_of, rows_of
from treetop.kernels.sums import unit_sums


@pytest.mark.parametrize(("n", "m", "d"), [(3, 5, 7), (700, 300, 9000), (1, 1, 1), (0, 4, 5), (4, 4, 64)])
def test_unit_sums_equal_the_plain_product(n, m, d):
    rng = np.random.default_rng(n)
    X = sparse.random(m, d, 0.05, "csr", np.float32, rng=rng)
    weights = sparse.random(n, m, 0.3, "csr", np.float32, rng=rng)
    weights = sparse.diags_array((np.arange(n) >= n // 3).astype(np.float32)) @ weights  # some rows are empty
    X.indices = X.indices.astype(np.int64)
    made = csr_of(unit_sums(rows_of(sparse.csr_matrix(weights)), rows_of(X), d), d)
    slow = (weights @ X).toarray().astype(np.float64)
    length = np.linalg.norm(slow, axis=1, keepdims=True)
    np.testing.assert_allclose(made.toarray(), slow / np.where(length > 0, length, 1), atol=1e-6)
    assert made.has_sorted_indices
    assert (made.data != 0).all()


def test_same_bits_with_any_number_of_threads():
    rng = np.random.default_rng(1)
    X, weights = (sparse.random(*shape, 0.02, "csr", np.float32, rng=rng) for shape in ((500, 400), (1300, 500)))
    made = []
    for n in (1, 3):
        with threads.limited(n):
            made.append(unit_sums(rows_of(weights), rows_of(X), 400))
    assert all(np.array_equal(a, b) for a, b in zip(*made, strict=True))
