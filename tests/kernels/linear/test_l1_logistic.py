"""The L1 solver against proximal gradient steps, and its optimality conditions."""

import numpy as np
import pytest
from scipy import sparse

from treetop.kernels.linear import l1_logistic_slow as slow
from treetop.kernels.linear.l1_logistic import Columns, Rules, solve

TIGHT = Rules(eps=1e-9, rounds=500, passes=1000)


def columns(X):
    csc = sparse.csc_matrix(X, dtype=np.float32)
    csc.sort_indices()
    return Columns(csc.indptr.astype(np.uint32), csc.indices.astype(np.uint32), csc.data)


def problem(seed, n=60, d=25, density=0.3, cost=2.0):
    random = np.random.default_rng(seed)
    X = sparse.random(n, d, density, "csr", np.float32, random).toarray()
    side = np.sign(X @ random.normal(size=d) + 0.3 * random.normal(size=n) + 1e-9)
    return X, (side * cost * random.uniform(0.5, 2.0, n)).astype(np.float32)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("cost", [0.1, 2.0, 50.0])
def test_reaches_the_minimum_of_the_twin(seed, cost):
    X, side = problem(seed, cost=cost)
    ours, theirs = solve(columns(X), side, TIGHT), slow.solve(X, side)
    best = slow.objective(X, side, theirs)
    assert slow.objective(X, side, ours) <= best + 1e-6 * abs(best)
    assert (ours == 0).sum() > 0 or cost == 50.0


@pytest.mark.parametrize("seed", range(5))
def test_no_coordinate_wants_to_move(seed):
    X, side = problem(seed + 10)
    w = solve(columns(X), side, TIGHT)
    y, cost = np.sign(side), np.abs(side)
    gradient = -(cost * y / (1 + np.exp(y * (X @ w)))) @ X.astype(np.float64)
    assert np.allclose(gradient[w != 0], -np.sign(w[w != 0]), atol=1e-4)
    assert (np.abs(gradient[w == 0]) <= 1 + 1e-4).all()


def test_a_loose_tolerance_is_near_and_quicker_rounds_still_fall():
    X, side = problem(3, n=300, d=80)
    best = slow.objective(X, side, solve(columns(X), side, TIGHT))
    loose = slow.objective(X, side, solve(columns(X), side, Rules(eps=0.01)))
    once = slow.objective(X, side, solve(columns(X), side, Rules(rounds=1)))
    nothing = slow.objective(X, side, np.zeros(80))
    assert best <= loose <= best * 1.02 and loose <= once < nothing


def test_odd_problems():
    empty = np.zeros((4, 3), np.float32)
    assert solve(columns(empty), np.array([1, -1, 1, -1], np.float32), Rules()).tolist() == [0, 0, 0]
    assert len(solve(columns(np.zeros((4, 0))), np.ones(4, np.float32), Rules())) == 0
    huge = np.array([[1e4, 0], [0, 1e-4], [-1e4, 1.0]], np.float32)
    w = solve(columns(huge), np.array([1, -1, -1], np.float32), TIGHT)
    assert np.isfinite(w).all() and w[0] > 0
    one_sided = solve(columns(np.ones((5, 1))), np.ones(5, np.float32), TIGHT)
    assert one_sided[0] > 0
    ties = np.repeat(np.eye(2, dtype=np.float32), 10, axis=0)
    side = np.repeat(np.array([1, -1], np.float32), 10)
    w = solve(columns(ties), side, TIGHT)
    assert w[0] == pytest.approx(-w[1], abs=1e-6) and w[0] == pytest.approx(np.log(9), abs=1e-4)
