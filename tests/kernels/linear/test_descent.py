import numpy as np
import pytest
from scipy import sparse

from treetop.core.spill import Spill
from treetop.kernels import reference
from treetop.kernels.linear import descent
from treetop.kernels.sparse import Rows, csr_of, gather, rows_of, scramble, shuffle

NOTHING = Rows(np.zeros(1, np.uint64), np.zeros(0, np.uint32), np.zeros(0, np.float32))


def solve(X, Y, *, rows=None, inside=None, costs=None, left_out=None, seed=3, place=None, **settings):
    """Dense weights (n_features + 1, n_problems), the bias last."""
    n, d = X.shape
    rows = np.arange(n, dtype=np.uint32) if rows is None else rows
    inside = np.ones(len(rows), np.uint8) if inside is None else inside
    Yc = Y.tocsc()
    positives = rows_of(Yc)._replace(
        values=np.zeros(0, np.float32) if costs is None else costs.tocsc().data.astype(np.float32)
    )
    problems = descent.Problems(positives, NOTHING if left_out is None else rows_of(left_out.tocsc()))
    scratch = np.zeros(d, np.uint32), np.zeros(n, np.uint32)
    group = descent.Group(np.arange(Y.shape[1], dtype=np.uint32), rows, inside, seed)
    task = (rows_of(X), problems, group, descent.Settings(**settings), scratch)
    made = descent.solve_group(*task) if place is None else descent.solve_group_spilled(*task, place)
    assert not scratch[0].any()
    assert not scratch[1].any()
    W = np.zeros((d + 1, Y.shape[1]), np.float64)
    columns = np.repeat(np.arange(Y.shape[1]), made.counts)
    np.add.at(W, (made.features, columns), made.values)
    W[d] = made.bias
    return W


def toy(n=60, d=40, n_problems=5, seed=0, density=0.15):
    rng = np.random.default_rng(seed)
    X = sparse.random(n, d, density, "csr", np.float32, rng=rng, data_rvs=lambda k: rng.random(k) + 0.1)
    Y = sparse.random(n, n_problems, 0.2, "csr", np.float32, rng=rng)
    Y.data[:] = 1
    return X, Y


def optimum(full, y, costs, loss):
    """The least value of the objective; logistic problems are within 1e-4 of it after 200 slow passes."""
    best = reference.dual_descent(full, y, costs, loss, 200 if loss == "logistic" else 2000)
    return reference.linear_objective(full, y, costs, best, loss)


def dense(X, bias=1.0):
    return np.hstack([X.toarray().astype(float), np.full((X.shape[0], 1), bias)])


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "logistic"])
@pytest.mark.parametrize(("n_problems", "block"), [(1, 1 << 20), (5, 1 << 20), (37, 1 << 20), (5, 59), (37, 7), (1, 1)])
def test_reaches_the_optimum(loss, n_problems, block):
    X, Y = toy(n_problems=n_problems)
    settings = {"eps": 1e-3, "max_passes": 3000, "threshold": 0.0, "cost_positive": 2.0, "block": block}
    W = solve(X, Y, loss=descent.LOSSES[loss], **settings)
    full = dense(X)
    for k in {0, n_problems // 2, n_problems - 1}:
        y = np.where(Y.toarray()[:, k] > 0, 1.0, -1.0)
        costs = np.where(y > 0, 2.0, 1.0)
        best = optimum(full, y, costs, loss)
        assert reference.linear_objective(full, y, costs, W[:, k], loss) <= best * 1.002 + 1e-6


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_a_larger_constant_feature_adds_its_weight_times_its_value(loss):
    X, Y = toy(30, 25, n_problems=3)
    W = solve(X, Y, loss=descent.LOSSES[loss], eps=1e-4, max_passes=5000, threshold=0.0, bias=3.0)
    full, ones = dense(X, 3.0), np.ones(30)
    W[-1] /= 3.0
    for k in range(Y.shape[1]):
        y = np.where(Y.toarray()[:, k] > 0, 1.0, -1.0)
        best = optimum(full, y, ones, loss)
        assert reference.linear_objective(full, y, ones, W[:, k], loss) <= best * 1.002 + 1e-6


def test_loose_eps_is_near_the_optimum():
    X, Y = toy(200, 80)
    loose, full = solve(X, Y, threshold=0.0), dense(X)
    best = solve(X, Y, threshold=0.0, eps=1e-4, max_passes=5000)  # proven against the slow twin above
    for k in range(5):
        y = np.where(Y.toarray()[:, k] > 0, 1.0, -1.0)
        least = reference.linear_objective(full, y, np.ones(200), best[:, k])
        assert least * (1 - 1e-6) <= reference.linear_objective(full, y, np.ones(200), loose[:, k]) <= least * 1.05


def test_costs_absent_rows_and_rows_left_out():
    X, Y = toy()
    costs = Y.copy()
    costs.data = np.random.default_rng(1).random(Y.nnz).astype(np.float32)
    costs.data[::7] = 0  # a positive that weighs nothing takes no part
    out = sparse.csr_matrix(([1.0, 1.0], ([2, 5], [0, 0])), shape=Y.shape)
    rows = np.arange(0, 60, 2, dtype=np.uint32)
    inside = (np.arange(30) % 3 > 0).astype(np.uint8)
    W = solve(X, Y, rows=rows, inside=inside, costs=costs, left_out=out, eps=1e-4, max_passes=3000, threshold=0.0)
    full = dense(X)[rows]
    for k in range(Y.shape[1]):
        positive = Y.toarray()[rows, k] > 0
        weights = np.where(positive, costs.toarray()[rows, k], inside)
        if k == 0:
            weights[(rows == 2) & ~positive] = 0
        y = np.where(positive, 1.0, -1.0)
        best = reference.linear_objective(full, y, weights, reference.dual_descent(full, y, weights))
        assert reference.linear_objective(full, y, weights, W[:, k]) == pytest.approx(best, rel=2e-3)


def test_pruning_and_cap():
    X, Y = toy(100, 60)
    everything, pruned = solve(X, Y, threshold=0.0), solve(X, Y, threshold=0.3)
    assert np.array_equal(pruned, np.where(np.abs(everything) >= np.float32(0.3), everything, 0))
    capped = solve(X, Y, threshold=0.0, max_nonzeros=4)
    for k in range(Y.shape[1]):
        order = sorted(range(61), key=lambda j: (-abs(everything[j, k]), j))
        want = np.zeros(61)
        want[order[:4]] = everything[order[:4], k]
        assert np.array_equal(capped[:, k], want)


def test_edge_cases():
    empty = sparse.csr_matrix((4, 3), dtype=np.float32)
    Y = sparse.csr_matrix(np.array([[1, 0], [0, 0], [0, 0], [0, 0]], np.float32))
    for loss in descent.LOSSES.values():
        W = solve(empty, Y, loss=loss, threshold=0.0)
        assert np.isfinite(W).all()
        assert not W[:3].any()
        assert W[3, 1] < 0  # a problem without positives: only a negative bias
    assert solve(empty, Y, bias=0.0, loss=descent.HINGE).any() == np.False_
    one = sparse.csr_matrix(np.array([[1e6, 0, 1e-6]], np.float32))
    for loss in descent.LOSSES.values():
        W = solve(one, sparse.csr_matrix(np.ones((1, 1), np.float32)), loss=loss, threshold=0.0)
        assert np.isfinite(W).all()
        assert dense(one)[0] @ W[:, 0] > 0.9
    assert solve(X=toy()[0], Y=sparse.csr_matrix((60, 0), dtype=np.float32)).shape == (41, 0)


def test_same_bits_again_and_with_wide_indices():
    X, Y = toy(100, 60, 40)
    first = solve(X, Y)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    assert np.array_equal(first, solve(X, Y))
    assert not np.array_equal(first, solve(X, Y, seed=4))


def test_gather_keeps_every_entry():
    X = toy(30, 50, seed=5)[0]
    members = np.array([3, 3 + 7, 0, 29, 8], np.uint32)
    local = gather(rows_of(X), members, np.zeros(50, np.uint32))
    shared = csr_of(Rows(local.indptr.astype(np.uint64), local.indices, local.values), len(local.features))
    made = np.zeros((5, 50), np.float32)
    made[:, local.features] = shared.toarray()
    counts = (X[members].toarray() > 0).sum(0)
    assert (np.diff(counts[local.features]) <= 0).all()  # most frequent first
    assert (counts[local.alone_features] == 1).all()
    rows = np.repeat(np.arange(5), np.diff(local.alone_indptr))
    made[rows, local.alone_features] = local.alone_values
    assert np.array_equal(made, X[members].toarray())


def test_duplicates_are_summed_and_shuffles_are_fair():
    twice = sparse.csr_matrix((np.ones(2, np.float32), [1, 1], [0, 2]), shape=(1, 3))
    assert rows_of(twice).values.tolist() == [2.0]
    places = np.zeros((4, 4))
    state = scramble(np.uint64(1))
    for _ in range(4000):
        items = np.arange(4, dtype=np.uint32)
        state = np.uint64(shuffle(items, np.uint64(state)))
        places[np.arange(4), items] += 1
    assert np.abs(places / 1000 - 1).max() < 0.15


@pytest.mark.parametrize("n_problems", [1, 2, 3, 16, 19])
@pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "logistic"])
def test_every_width_finds_the_weights_of_the_slow_twin(loss, n_problems):
    X, Y = toy(50, 30, n_problems, seed=8)
    costs = Y.copy()
    costs.data = np.random.default_rng(2).random(Y.nnz).astype(np.float32) + 0.2
    costs.data[::5] = 0
    W = solve(
        X, Y, costs=costs, loss=descent.LOSSES[loss], eps=1e-4, max_passes=20000, threshold=0.0, cost_negative=0.7
    )
    full = dense(X)
    for k in {0, n_problems // 2, n_problems - 1}:
        positive = Y.toarray()[:, k] > 0
        y, weights = np.where(positive, 1.0, -1.0), np.where(positive, costs.toarray()[:, k], 0.7)
        best = reference.dual_descent(full, y, weights, loss)
        value = reference.linear_objective(full, y, weights, W[:, k], loss)
        assert value <= reference.linear_objective(full, y, weights, best, loss) * (1 + 1e-4)
        assert np.abs(W[:, k] - best).max() < (0.02 if loss == "hinge" else 2e-3)


@pytest.mark.parametrize("scale", [1e-3, 30.0, 1e3])
@pytest.mark.parametrize("cost", [1e-3, 10.0])
def test_logistic_at_any_scale(scale, cost):
    X, Y = toy(30, 30, 2, seed=4)
    X = (X * scale).tocsr()
    settings = {"cost_positive": cost, "cost_negative": cost, "threshold": 0.0, "max_passes": 3000}
    W, full = solve(X, Y, loss=descent.LOGISTIC, eps=1e-3, **settings), dense(X)
    assert np.isfinite(W).all()
    for k in range(2):
        y, weights = np.where(Y.toarray()[:, k] > 0, 1.0, -1.0), np.full(30, cost)
        best = optimum(full, y, weights, "logistic")
        assert reference.linear_objective(full, y, weights, W[:, k], "logistic") <= best * 1.01 + 1e-6


@pytest.mark.parametrize("loss", descent.LOSSES.values())
def test_equal_rows_and_contradictions(loss):
    X = sparse.csr_matrix(np.ones((30, 2), np.float32))
    Y = sparse.csr_matrix((np.arange(30)[:, None] % 3 == np.arange(3)).astype(np.float32)[:, [0, 0, 1]])
    W, full = solve(X, Y, loss=loss, eps=1e-3, max_passes=5000, threshold=0.0), dense(X)
    name = {number: name for name, number in descent.LOSSES.items()}[loss]
    for k in range(3):
        y = np.where(Y.toarray()[:, k] > 0, 1.0, -1.0)
        best = reference.dual_descent(full, y, np.ones(30), name)
        least = reference.linear_objective(full, y, np.ones(30), best, name)
        assert reference.linear_objective(full, y, np.ones(30), W[:, k], name) <= least * 1.001
    assert np.array_equal(W[:, 0], W[:, 1])  # lanes do not touch each other


@pytest.mark.parametrize("loss", descent.LOSSES.values())
def test_a_problem_is_solved_alike_in_either_lane(loss):
    X, Y = toy(80, 50, 2, seed=6)
    ahead, behind = solve(X, Y, loss=loss), solve(X, Y[:, [1, 0]].tocsr(), loss=loss)
    assert np.array_equal(ahead, behind[:, [1, 0]])


def test_more_passes_come_nearer():
    X, Y = toy(120, 50, 2, seed=9)
    full, y = dense(X), np.where(Y.toarray()[:, 0] > 0, 1.0, -1.0)
    best = reference.linear_objective(full, y, np.ones(120), reference.dual_descent(full, y, np.ones(120)))
    gaps = []
    for passes in (1, 2, 4, 1000):
        W = solve(X, Y, eps=1e-4, max_passes=passes, threshold=0.0)
        gaps.append(reference.linear_objective(full, y, np.ones(120), W[:, 0]) / best - 1)
    assert gaps[0] > gaps[1] > gaps[2] > gaps[3]
    assert gaps[3] < 1e-6


def test_sleeping_rows_are_looked_at_again():
    costs = np.full(1000, 10.0)
    for seed in range(3):
        X, Y = toy(1000, 300, 2, seed=seed, density=0.05)
        settings = {"loss": descent.LOGISTIC, "cost_positive": 10.0, "cost_negative": 10.0, "threshold": 0.0}
        loose, best = solve(X, Y, **settings), solve(X, Y, eps=1e-3, max_passes=1000, **settings)
        for k in range(2):
            y = np.where(Y.toarray()[:, k] > 0, 1.0, -1.0)
            values = [reference.linear_objective(dense(X), y, costs, W[:, k], "logistic") for W in (loose, best)]
            assert values[0] <= values[1] * (1 + 5e-5)  # rows left asleep: 1e-4 to 1e-3


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "logistic"])
@pytest.mark.parametrize("n_problems", [2, 37])
def test_arrays_in_files_hold_the_same_weights(tmp_path, loss, n_problems):
    X, Y = toy(n=200, n_problems=n_problems)
    settings = {"loss": descent.LOSSES[loss], "rows": np.arange(0, 200, 2, dtype=np.uint32), "block": 30}
    place = Spill(tmp_path, 1)
    np.testing.assert_array_equal(solve(X, Y, **settings), solve(X, Y, place=place, **settings))
    assert len(place.bytes_written) == 5 and [*tmp_path.iterdir()] == []  # rows, their terms, and three arrays of lanes


def test_the_largest_arrays_of_a_group_are_its_lanes_or_its_entries():
    rows = np.zeros(100, np.uint32)
    few, many = (descent.Group(np.zeros(n, np.uint32), rows, rows.astype(np.uint8), 0) for n in (2, 3))
    assert [descent.solving_bytes(few, 10), descent.solving_bytes(many, 10)] == [800, 6400]
    assert descent.solving_bytes(many, 5000) == 20_000
