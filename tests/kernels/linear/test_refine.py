"""Functions that new rows pull are those of the slow twin, and what no row pulls stays."""

import numpy as np
import pytest
from scipy import sparse

from treetop.kernels.linear.descent import LOSSES, Settings
from treetop.kernels.linear.refine import Pull, refine
from treetop.kernels.linear.refine_slow import refine as slowly
from treetop.kernels.sparse import csr_of, rows_of

N, WIDTH, ROWS = 4, 30, 25


def problem(seed=0):
    rng = np.random.default_rng(seed)
    X = sparse.random(ROWS, WIDTH, 0.3, "csr", np.float32, random_state=seed)
    W = sparse.random(N, WIDTH, 0.4, "csr", np.float32, random_state=seed + 1)
    W.data -= np.float32(0.5)
    bias = rng.normal(-1, 0.3, N).astype(np.float32)
    signs = rng.choice([-1.0, 0.0, 1.0], (ROWS, N), p=[0.5, 0.3, 0.2]).astype(np.float32)
    return X, W, bias, sparse.csc_matrix(signs), rng.uniform(0.2, 1.0, N).astype(np.float32)


def moved(settings, pull=None):
    X, W, bias, signs, factor = problem()
    signs = signs if pull is None else pull
    found = refine(rows_of(X), WIDTH, rows_of(W), bias, Pull(rows_of(signs), factor), settings)
    return csr_of(found, WIDTH).toarray()


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_the_twin_finds_the_same_functions(loss):
    settings = Settings(LOSSES[loss], 2.0, 0.7, eps=1e-6, max_passes=5000, threshold=0.0)
    X, W, bias, signs, factor = problem()
    for f, found in enumerate(moved(settings)):
        y = signs.toarray()[:, f]
        rows = X.toarray()[y != 0]
        wanted = slowly(rows, W.toarray()[f], float(bias[f]), y[y != 0], float(factor[f]), settings)
        assert np.allclose(found, wanted, atol=2e-3), loss


def test_a_function_without_rows_stays_to_the_bit_and_small_weights_are_dropped():
    nothing = sparse.csc_matrix((ROWS, N), dtype=np.float32)
    W = problem()[1].toarray()
    assert np.array_equal(moved(Settings(threshold=0.0), nothing), W)
    pruned = moved(Settings(threshold=0.2), nothing)
    assert np.array_equal(pruned, np.where(np.abs(W) < np.float32(0.2), 0, W))


def test_rows_get_closer_to_their_targets():
    X, W, bias, signs, _ = problem()
    before, after = ((X @ w.T + bias) for w in (W.toarray(), moved(Settings(threshold=0.0))))
    y = signs.toarray()
    short = [np.maximum(1 - y * m, 0)[y != 0].sum() for m in (before, after)]
    assert short[1] < 0.8 * short[0]
