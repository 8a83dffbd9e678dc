import dataclasses

import numpy as np

import toy


def test_ignored_pairs_are_ones_of_a_matrix_each_once():
    data = toy.dataset(n=20)
    pairs = np.array([[3, 7], [0, 39], [3, 7], [19, 0], [3, 2]])
    made = dataclasses.replace(data, filter_pairs=pairs).ignored
    expected = np.zeros((20, toy.N_LABELS), np.float32)
    for row, label in pairs.tolist():
        expected[row, label] = 1.0
    assert made.dtype == np.float32 and made.nnz == 4 and np.array_equal(made.toarray(), expected)
    assert all((np.diff(made[row].indices) > 0).all() for row in range(20))


def test_without_filter_pairs_nothing_is_ignored():
    data = toy.dataset(n=5)
    assert data.ignored is None
    assert dataclasses.replace(data, filter_pairs=np.zeros((0, 2), np.int64)).ignored is None
