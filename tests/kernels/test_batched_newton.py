import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch")
from treetop.kernels import reference
from treetop.kernels.linear.batched_newton import Features, solve
from treetop.kernels.linear.newton import Penalty


def problems(n=120, words=30, width=5, n_problems=6, seed=0):
    rng = np.random.default_rng(seed)
    X = sparse.random(n, words, 0.1, "csr", np.float32, rng=rng)
    H = rng.normal(size=(n, width)).astype(np.float32)
    H /= np.linalg.norm(H, axis=1, keepdims=True)
    Y = np.where(rng.random((n, n_problems)) < 0.1, 1.0, -1.0).astype(np.float32)
    Y[:, 0] = -1
    Y[:, 1] = 1
    Y[rng.random((n, n_problems)) < 0.05] = 0  # pairs that count for nothing
    return X, H, Y


def features(X, H):
    return Features.of(X, H, torch.device("cpu"))


@pytest.mark.parametrize(("cost", "penalty"), [(1.0, Penalty(1.0, 1.0, 1.0)), (5.0, Penalty(1.0, 0.2, 0.1))])
def test_minima_are_those_of_the_slow_twin(cost, penalty):
    X, H, Y = problems()
    side = torch.from_numpy(np.where(Y > 0, cost * Y, Y))
    made = solve(features(X, H), side, penalty, eps=1e-4)
    assert (made.gradient <= made.tolerance).all()
    whole = np.hstack([X.toarray(), H, np.ones((len(H), 1))]).astype(float)
    scales = np.concatenate([np.full(30, penalty.sparse), np.full(5, penalty.dense), [penalty.bias]])
    for p in range(Y.shape[1]):
        kept = Y[:, p] != 0
        costs = np.where(Y[kept, p] > 0, cost, 1.0)
        plain = reference.newton_minimum(whole[kept], Y[kept, p].astype(float), costs, scales)
        np.testing.assert_allclose(made.W[:, p].numpy(), plain, atol=5e-3)


def test_a_start_at_the_minimum_stays_there_and_saves_steps():
    X, H, Y = problems(seed=1)
    side = torch.from_numpy(Y)
    first = solve(features(X, H), side, Penalty(1.0, 1.0, 1.0), eps=1e-3)
    again = solve(features(X, H), side, Penalty(1.0, 1.0, 1.0), eps=1e-3, start=first.W)
    assert again.steps == 0 and torch.equal(again.W, first.W)


def test_without_words_or_rows_of_a_problem():
    _, H, Y = problems()
    Y[:, 2] = 0
    made = solve(features(sparse.csr_matrix((120, 30), dtype=np.float32), H), torch.from_numpy(Y), Penalty(1, 1, 1))
    assert not made.W[:30].any() and not made.W[:, 2].any() and torch.isfinite(made.W).all()
