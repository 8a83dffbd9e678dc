import numpy as np
import pytest
from scipy import sparse

from treetop.kernels import reference
from treetop.kernels.linear import working_set as ws
from treetop.kernels.linear.newton import Design, Penalty, Rules, dot, newton
from treetop.kernels.sparse import Rows, rows_of

NOTHING = Rows(np.zeros(1, np.uint64), np.zeros(0, np.uint32), np.zeros(0, np.float32))


def toy(n=300, d=60, n_problems=8, seed=0, density=0.1, share=0.05):
    """Unit rows, some of them empty; problem 0 has no positives, problem 1 one, the last half of all rows."""
    rng = np.random.default_rng(seed)
    X = sparse.random(n, d, density, "csr", np.float32, rng=rng, data_rvs=lambda k: rng.random(k) + 0.1)
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(1)).ravel())
    X.data /= np.repeat(np.maximum(lengths, 1e-9), np.diff(X.indptr)).astype(np.float32)
    Y = (rng.random((n, n_problems)) < share).astype(np.float32)
    Y[:, 0] = 0
    Y[:, 1] = 0
    Y[np.flatnonzero(lengths)[3], 1] = 1
    Y[:, -1] = rng.random(n) < 0.5
    X.sort_indices()
    return X, sparse.csc_matrix(Y)


def with_bias(X):
    return np.hstack([X.toarray().astype(float), np.ones((X.shape[0], 1))])


def solve(X, Y, *, costs=(1.0, 1.0), left_out=None, span=None, **settings):
    """(dense weights with the bias last, `Solved`), after checking that scratch comes back clean."""
    n_problems, shared = Y.shape[1], ws.share(X)
    scratch = ws.new_scratch(shared)
    sides = (np.full(n_problems, cost, np.float32) for cost in costs)
    targets = ws.Targets(rows_of(Y), NOTHING if left_out is None else rows_of(left_out), *sides)
    first, end = span or (0, n_problems)
    made = ws.solve_block(shared, targets, (first, end), ws.Settings(**{"threshold": 0.0, **settings}), scratch)
    assert not scratch.inside.any() and not scratch.place.any() and not scratch.weights.any()
    W = np.zeros((X.shape[1] + 1, end - first))
    W[made.features, np.repeat(np.arange(end - first), made.counts)] = made.values
    W[-1] = made.bias
    return W, made


def objective(X, y, costs, w, bias_scale):
    scales = np.ones(X.shape[1])
    scales[-1] = bias_scale
    return 0.5 * scales @ w**2 + costs @ reference.linear_loss("squared_hinge", y * (X @ w))


def best(X, y, costs, bias_scale):
    scales = np.ones(X.shape[1])
    scales[-1] = bias_scale
    return objective(X, y, costs, reference.newton_minimum(X, y, costs, scales), bias_scale)


def test_reference_agrees_with_dual_descent():
    X, Y = toy(80, 30)
    full, y = with_bias(X), np.where(Y.toarray()[:, 3] > 0, 1.0, -1.0)
    ones = np.ones(len(y))
    w = reference.newton_minimum(full, y, ones, np.ones(31))
    np.testing.assert_allclose(w, reference.dual_descent(full, y, ones, passes=20000), atol=1e-4)


@pytest.mark.parametrize("n", [0, 1, 3, 4, 9, 100])
def test_dot_equals_numpy(n):
    a, b = np.random.default_rng(0).random((2, n))
    assert dot(a, b) == pytest.approx(a @ b)


@pytest.mark.parametrize("bias", [1.0, 0.0])
@pytest.mark.parametrize("n_dense", [0, 5])
def test_newton_reaches_the_minimum_with_dense_columns(bias, n_dense):
    X, Y = toy()
    rng = np.random.default_rng(1)
    dense = rng.standard_normal((X.shape[0], n_dense)).astype(np.float32) / 4
    rows, scales = rows_of(X), np.concatenate([np.full(X.shape[1], 0.5), np.full(n_dense, 2.0), [bias]])
    full = np.hstack([X.toarray(), dense, np.ones((X.shape[0], 1))]).astype(float)
    for k in (1, 3, 7):
        y = np.where(Y.toarray()[:, k] > 0, 1.0, -1.0)
        side = y * np.where(y > 0, 3.0, 1.0)
        side[:5] = 0.0  # absent
        w = np.zeros(full.shape[1])
        ended = newton(Design(*rows, dense), side, w, Penalty(0.5, 2.0, bias), (1e-4, Rules()))
        np.testing.assert_allclose(w, reference.newton_minimum(full, y, np.abs(side), scales), atol=3e-4)
        assert ended.gradient <= 1e-3 and not ended.failed
        value = 0.5 * scales @ w**2 + np.abs(side) @ reference.linear_loss("squared_hinge", y * (full @ w))
        assert ended.objective == pytest.approx(value)


def test_newton_stops_at_most_steps_and_without_active_rows():
    X, Y = toy()
    rows, w = rows_of(X), np.zeros(X.shape[1] + 1)
    design = Design(*rows, np.zeros((X.shape[0], 0), np.float32))
    side = np.where(Y.toarray()[:, 7] > 0, 1.0, -1.0)
    assert newton(design, side, w, Penalty(), (1e-9, Rules(max_steps=1))).steps == 1
    w[:] = 0.0
    w[-1] = -3.0  # every negative is beyond its margin: nothing pulls, and the bias is free
    ended = newton(design, -np.abs(side), w, Penalty(), (1e-9, Rules()))
    assert ended.steps == 0 and ended.objective == 0.0


@pytest.mark.parametrize("bias", [1.0, 0.0])
@pytest.mark.parametrize("costs", [(1.0, 1.0), (8.0, 1.0), (0.3, 0.1)])
@pytest.mark.parametrize("all_rows", [False, True])
def test_blocks_reach_the_minimum_over_all_rows(bias, costs, all_rows):
    X, Y = toy()
    W, made = solve(X, Y, costs=costs, penalty=Penalty(bias=bias), all_rows=all_rows)
    full = with_bias(X)
    assert made.counts[0] == 0 and made.bias[0] == 0
    for k in range(1, Y.shape[1]):
        y = np.where(Y.toarray()[:, k] > 0, 1.0, -1.0)
        c = np.where(y > 0, *costs)
        found, least = objective(full, y, c, W[:, k], bias), best(full, y, c, bias)
        assert least * (1 - 1e-9) <= found <= least * 1.001
        assert made.objective[k] == pytest.approx(found, rel=1e-4)


def test_few_rows_are_enough_when_targets_are_rare():
    X, Y = toy(4000, 3000, density=0.004, share=0.001)
    W, made = solve(X, Y[:, 1:-1], penalty=Penalty(bias=1.0))
    assert made.rows.max() < 1500
    full = with_bias(X)
    for k in (0, 3):
        y = np.where(Y.toarray()[:, k + 1] > 0, 1.0, -1.0)
        least = objective(full, y, np.ones(len(y)), reference_newton(X, y), 1.0)
        assert objective(full, y, np.ones(len(y)), W[:, k], 1.0) <= least * 1.001


def reference_newton(X, y):
    w = np.zeros(X.shape[1] + 1)
    newton(Design(*rows_of(X), np.zeros((X.shape[0], 0), np.float32)), y, w, Penalty(bias=1.0), (1e-5, Rules()))
    return w


def test_rows_left_out_play_no_part():
    X, Y = toy(200, 40)
    rng = np.random.default_rng(5)
    out = sparse.csc_matrix((rng.random(Y.shape) < 0.3) * (Y.toarray() == 0), dtype=np.float32)
    for all_rows in (False, True):
        W, _ = solve(X, Y, left_out=out, eps=1e-4, gap=1e-7, penalty=Penalty(bias=1.0), all_rows=all_rows)
        for k in (2, 5):
            kept = out.toarray()[:, k] == 0
            y = np.where(Y.toarray()[:, k] > 0, 1.0, -1.0)[kept]
            full = with_bias(X)[kept]
            least = best(full, y, np.ones(len(y)), 1.0)
            assert objective(full, y, np.ones(len(y)), W[:, k], 1.0) == pytest.approx(least, rel=1e-4)


def test_small_weights_are_dropped_and_nothing_else_changes():
    X, Y = toy()
    everything, _ = solve(X, Y)
    pruned, made = solve(X, Y, threshold=0.2)
    expected = everything.copy()
    expected[:-1][np.abs(expected[:-1]) < 0.2] = 0
    np.testing.assert_array_equal(pruned, expected)
    assert np.abs(made.values).min() >= np.float32(0.2)


def test_a_problem_does_not_depend_on_its_block():
    X, Y = toy()
    together, _ = solve(X, Y)
    np.testing.assert_array_equal(solve(X, Y, span=(3, 5))[0], together[:, 3:5])


def test_positives_without_features_give_no_weights():
    X, _ = toy()
    X = sparse.vstack([X, sparse.csr_matrix((1, X.shape[1]), dtype=np.float32)]).tocsr()
    only_empty = np.zeros((X.shape[0], 1), np.float32)
    only_empty[-1] = 1
    W, made = solve(X, sparse.csc_matrix(only_empty))
    assert made.counts[0] == 0 and not W.any()


def test_edges_one_row_duplicates_and_all_positive():
    one = sparse.csr_matrix(np.array([[0.6, 0.8]], np.float32))
    W, _ = solve(one, sparse.csc_matrix(np.ones((1, 1), np.float32)))
    assert W[:2, 0] @ [0.6, 0.8] + W[2, 0] > 0
    twice = sparse.csr_matrix(np.tile(np.array([[0.6, 0.8], [1.0, 0.0]], np.float32), (50, 1)))
    y = sparse.csc_matrix(np.tile([[1.0], [0.0]], (50, 1)).astype(np.float32))
    W, _ = solve(twice, y, penalty=Penalty(bias=1.0))
    y_ = np.tile([1.0, -1.0], 50)
    least = best(with_bias(twice), y_, np.ones(100), 1.0)
    assert objective(with_bias(twice), y_, np.ones(100), W[:, 0], 1.0) <= least * 1.001
    W, _ = solve(twice, sparse.csc_matrix(np.ones((100, 1), np.float32)), penalty=Penalty(bias=1.0))
    assert (with_bias(twice) @ W[:, 0] > 0.5).all()


@pytest.mark.parametrize("shared", [0, 1, 5])
def test_a_label_with_one_word_among_thousands_of_strangers(shared):
    """Rows that no weight reaches all have the bias as margin; they must hold it down together."""
    rng = np.random.default_rng(0)
    n = 3000
    columns = [[0]] + [[0, 1 + int(rng.integers(40))] for _ in range(shared)]
    columns += [np.unique(1 + rng.integers(0, 40, 3)).tolist() for _ in range(n - len(columns))]
    indptr = np.cumsum([0, *map(len, columns)])
    X = sparse.csr_matrix((np.ones(indptr[-1], np.float32), np.concatenate(columns).astype(np.int32), indptr), (n, 41))
    X = sparse.diags((1.0 / np.sqrt(np.diff(indptr))).astype(np.float32)) @ X
    Y = sparse.csc_matrix((np.ones(1, np.float32), ([0], [0])), (n, 1))
    W, made = solve(sparse.csr_matrix(X), Y)
    y = np.full(n, -1.0)
    y[0] = 1.0
    costs = np.ones(n)
    whole = with_bias(sparse.csr_matrix(X))
    assert objective(whole, y, costs, W[:, 0], 0.0) == pytest.approx(best(whole, y, costs, 0.0), rel=0.05)
    assert made.bias[0] < -0.9 and made.rounds[0] < 10
