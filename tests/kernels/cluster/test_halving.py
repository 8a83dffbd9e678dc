import numpy as np
import pytest
from scipy import sparse

from treetop.core import spill
from treetop.kernels import reference
from treetop.kernels.cluster import halving, kmeans
from treetop.kernels.sparse import rows_of


def unit(n, d, seed, density=0.2):
    rng = np.random.default_rng(seed)
    Z = sparse.random(n, d, density, "csr", np.float32, rng=rng)
    Z = sparse.csr_matrix(Z.multiply(1 / np.maximum(np.sqrt(Z.multiply(Z).sum(1)), 1e-9)), dtype=np.float32)
    Z.sort_indices()
    return Z


@pytest.mark.parametrize("spherical", [True, False])
@pytest.mark.parametrize("rule", [halving.SAME_SET, halving.SMALL_GAIN])
@pytest.mark.parametrize(("n", "d", "density"), [(2, 5, 0.9), (3, 40, 0.1), (31, 50, 0.2), (120, 900, 0.01)])
def test_halves_equal_the_slow_ones(n, d, density, rule, spherical):
    for seed in range(5):
        Z = unit(n, d, seed, density)
        start = halving.two_of(n, seed)
        assert start[0] != start[1] and start.max() < n
        # a members list that is not 0..n-1: every row stands twice in the matrix
        twice = rows_of(sparse.vstack([unit(n, d, seed + 99, density), Z], format="csr"))
        counts = np.zeros(d, np.uint32)
        options = halving.Options(rule, 9, 1e-4, spherical)
        found = halving.halve(twice, np.arange(n, 2 * n, dtype=np.uint32), start, options, counts)
        slow = reference.halve(
            Z.toarray().astype(np.float64), tuple(start), gains=rule == halving.SMALL_GAIN,
            max_iter=9, eps=1e-4, spherical=spherical,
        )  # fmt: skip
        assert found.sum() == n - n // 2
        assert not counts.any()
        assert np.mean(found != slow) <= 0.1  # rounding may swap a near tie; none of the seeds needs more


def test_halves_of_dense_rows_are_the_same():
    Z = unit(60, 30, 3)
    options = halving.Options(halving.SAME_SET, 20)
    sparse_side = halving.halve(
        rows_of(Z), np.arange(60, dtype=np.uint32), np.array([4, 9]), options, np.zeros(30, np.uint32)
    )
    assert np.array_equal(sparse_side, halving.halve_dense(Z.toarray(), np.array([4, 9]), options))


def test_ties_go_by_row():
    Z = rows_of(sparse.csr_matrix(np.ones((7, 2), np.float32)))
    sides = halving.halve(Z, np.arange(7, dtype=np.uint32), np.array([0, 1]), halving.Options(), np.zeros(2, np.uint32))
    assert sides.tolist() == [False, False, False, True, True, True, True]


@pytest.mark.parametrize("k", [1, 3, 20])
def test_groups_equal_the_slow_ones(k):
    for seed in range(4):
        Z = unit(80, 60, seed)
        start = np.random.default_rng(seed).permutation(80)[:k]
        counts = np.zeros(60, np.uint32)
        found = kmeans.group(rows_of(Z), np.arange(80, dtype=np.uint32), start, (10, 1e-4), counts)
        slow = reference.group(Z.toarray().astype(np.float64), start, 10, 1e-4)
        assert not counts.any()
        assert np.mean(found != slow) <= 0.05


def test_kth_smallest_equals_sorting():
    rng = np.random.default_rng(0)
    for n in (1, 2, 17, 300):
        values = rng.integers(0, 20, n).astype(np.float32)
        for k in {0, n // 2, n - 1}:
            assert halving._kth_smallest(values.copy(), k) == np.sort(values)[k]


@pytest.mark.parametrize("max_leaf", [0, 30])
@pytest.mark.parametrize("least", [1, 2000, 12000])
def test_leaves_are_the_same_with_rows_in_files(tmp_path, least, max_leaf):
    rows = unit(300, 40, 3).tolil()
    rows[::11] = 0  # without features
    rows[50:90] = rows[50]  # tied
    rows = rows.tocsr()
    plain = halving.balanced_leaves(rows, 4, seed=5, max_leaf=max_leaf)
    with spill.spilling(tmp_path, least) as place:
        spilled = halving.balanced_leaves(rows, 4, seed=5, max_leaf=max_leaf)
    assert len(place.bytes_written) >= (2 if least < 12000 else 0)
    np.testing.assert_array_equal(spilled, plain)
