import numpy as np
import pytest

from treetop.kernels import reference
from treetop.kernels.search.dense_dots import all_dots, gathered_dots


@pytest.mark.parametrize(("n", "width", "candidates"), [(7, 384, 30), (1, 1, 1), (3, 5, 0), (0, 4, 0), (40, 17, 200)])
def test_products_are_those_of_the_slow_twin(n, width, candidates):
    rng = np.random.default_rng(n + width)
    table, rows = (rng.normal(size=(size, width)).astype(np.float32) for size in (50, n))
    table.setflags(write=False)
    ends = np.concatenate([[0], np.cumsum(rng.integers(0, candidates + 1, n))]) + 11
    ids = rng.integers(0, 50, ends[-1] - ends[0]).astype(np.int32)
    made = np.empty(len(ids), np.float32)
    gathered_dots(table, rows, ends, ids, made)
    assert made == pytest.approx(reference.gathered_dots(table, rows, ends, ids), abs=1e-4)


@pytest.mark.parametrize(("n", "width", "vectors"), [(1, 384, 200), (4, 7, 3), (0, 4, 2), (2, 0, 3), (1, 1, 0)])
def test_products_with_all_are_those_of_a_matrix_product(n, width, vectors):
    rng = np.random.default_rng(n + width)
    table, rows = (rng.normal(size=(size, width)).astype(np.float32) for size in (vectors, n))
    assert all_dots(table, rows) == pytest.approx(rows.astype(np.float64) @ table.T, abs=1e-4)


def test_huge_numbers_stay_huge():
    table, rows = np.full((2, 8), 1e30, np.float32), np.full((1, 8), 1e30, np.float32)
    made = np.empty(1, np.float32)
    gathered_dots(table, rows, np.array([0, 1]), np.array([1], np.int32), made)
    assert made[0] == np.inf
