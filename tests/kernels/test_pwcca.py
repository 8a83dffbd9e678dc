"""PWCCA against the textbook's eigenvalue problem, and what it must not depend on."""

import numpy as np
import pytest
from scipy import linalg

from treetop.kernels.pwcca import pwcca


def slow(X, Y):
    """Canonical variates by the generalised eigenvalue problem of the covariances, all directions."""
    X, Y = X - X.mean(0), Y - Y.mean(0)
    xx, yy, xy = X.T @ X, Y.T @ Y, X.T @ Y
    squares, W = linalg.eigh(xy @ np.linalg.inv(yy) @ xy.T, xx)
    kept = np.argsort(-squares)[: min(X.shape[1], Y.shape[1])]
    H = X @ W[:, kept]
    H /= np.linalg.norm(H, axis=0)
    weights = np.array([sum(abs(h @ x) for x in X.T) for h in H.T])
    return float((weights * np.sqrt(np.clip(squares[kept], 0, None))).sum() / weights.sum())


@pytest.mark.parametrize(("a", "b"), [(4, 4), (3, 6), (6, 3)])
def test_it_is_the_textbooks(a, b):
    random = np.random.default_rng(a)
    X = random.normal(size=(50, a)) @ random.normal(size=(a, a))
    Y = np.hstack([X, random.normal(size=(50, 6))])[:, :b] @ random.normal(size=(b, b)) + random.normal(size=(50, b))
    assert pwcca(X, Y, variance=1.0) == pytest.approx(slow(X, Y), abs=1e-8)


def test_linear_maps_change_nothing_and_noise_is_unlike():
    random = np.random.default_rng(0)
    X = random.normal(size=(2000, 5))
    assert pwcca(X, X @ random.normal(size=(5, 5)) + 3, variance=1.0) == pytest.approx(1.0)
    assert pwcca(X, random.normal(size=(2000, 5))) < 0.1
    assert pwcca(X, np.ones((2000, 5))) == 0.0
    flat = np.hstack([X, 1e-4 * random.normal(size=(2000, 500))])
    other = np.hstack([X, 1e-4 * random.normal(size=(2000, 500))])
    assert pwcca(flat, other) == pytest.approx(1.0, abs=1e-3)  # directions without variance do not count
