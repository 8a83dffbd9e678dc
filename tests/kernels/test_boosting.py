"""Boosted symmetric trees against a slow twin, and what they promise."""

import numpy as np
import pytest

from treetop.kernels.boosting import Boosting, boost, margins


def data(seed, n=400, width=3):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 20, (n, width)).astype(np.uint8)
    y = (X[:, 0] / 10 + rng.normal(size=n) > 1).astype(np.float32)
    return X, y, rng.integers(1, 4, n).astype(np.float32)


def slow_margin(x, trees):
    """One row, by the definition."""
    total = np.float64(0)
    for feature, cut, leaf in zip(trees.feature, trees.cut, trees.leaf, strict=True):
        bits = [int(x[f] > c) for f, c in zip(feature, cut, strict=True)]
        total += leaf[sum(bit << d for d, bit in enumerate(bits))]
    return np.float32(trees.base) + np.float32(total)


def slow_first_cut(X, y, weight, how):
    """(gain, feature, cut) of the first cut of the first tree, by trying all."""
    base = np.log((float((weight * y).sum()) + 0.5) / (float((weight * (1 - y)).sum()) + 0.5))
    p = 1 / (1 + np.exp(-base))
    slope, curve = weight * (y - p), weight * p * (1 - p)
    best = (0.0, -1, -1)
    for f in range(X.shape[1]):
        for cut in range(255):
            low = X[:, f] <= cut
            sides = [(slope[s].sum(), curve[s].sum()) for s in (low, ~low)]
            if min(h for _, h in sides) < how.least:
                continue
            gain = sum(g * g / (h + how.l2) for g, h in sides) - slope.sum() ** 2 / (curve.sum() + how.l2)
            best = max(best, (gain, f, cut), key=lambda item: (round(item[0], 6), -item[1], -item[2]))
    return best


@pytest.mark.parametrize("seed", range(3))
def test_margins_are_those_of_the_slow_twin_with_any_number_of_threads(seed):
    X, y, weight = data(seed)
    trees = boost(X, y, weight, np.zeros(3, bool), Boosting(trees=7, depth=3))
    assert np.array_equal(margins(X, trees), [slow_margin(x, trees) for x in X])
    assert len(margins(X[:0], trees)) == 0


@pytest.mark.parametrize("seed", range(3))
def test_the_first_cut_is_the_best_of_all(seed):
    X, y, weight = data(seed)
    how = Boosting(trees=1, depth=1)
    trees = boost(X, y, weight, np.zeros(3, bool), how)
    assert (trees.feature[0, 0], trees.cut[0, 0]) == slow_first_cut(X, y, weight, how)[1:]


def test_a_monotone_feature_never_lowers_the_margin():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 30, (3000, 2)).astype(np.uint8)
    y = ((np.abs(X[:, 0] - 15.0) > 7) ^ (X[:, 1] > 20)).astype(np.float32)  # as unlike a rising function as can be
    trees = boost(X, y, np.ones(3000, np.float32), np.array([True, False]), Boosting(trees=40, depth=4))
    grid = np.array([[[a, b] for a in range(31)] for b in range(31)], np.uint8)
    rising = np.diff(margins(grid.reshape(-1, 2), trees).reshape(31, 31), axis=1)
    assert rising.min() >= -1e-6
    free = boost(X, y, np.ones(3000, np.float32), np.zeros(2, bool), Boosting(trees=40, depth=4))
    assert np.diff(margins(grid.reshape(-1, 2), free).reshape(31, 31), axis=1).min() < -0.1  # what the rule forbids


def test_log_loss_falls_with_more_trees_and_weights_count_as_repeated_rows():
    X, y, weight = data(1)

    def loss(n):
        z = margins(X, boost(X, y, weight, np.zeros(3, bool), Boosting(trees=n))).astype(np.float64)
        return float((weight * (np.logaddexp(0, z) - y * z)).sum())

    assert loss(40) < loss(10) < loss(1)
    times = weight.astype(int)
    repeated = boost(
        np.repeat(X, times, axis=0),
        np.repeat(y, times),
        np.ones(times.sum(), np.float32),
        np.zeros(3, bool),
        Boosting(),
    )
    once = boost(X, y, weight, np.zeros(3, bool), Boosting())
    np.testing.assert_allclose(margins(X, repeated), margins(X, once), atol=1e-4)


@pytest.mark.parametrize("y", [0.0, 1.0])
def test_nothing_to_tell_apart_gives_no_trees(y):
    X = data(0)[0]
    trees = boost(X, np.full(len(X), y, np.float32), np.ones(len(X), np.float32), np.zeros(3, bool), Boosting())
    assert np.isfinite(margins(X, trees)).all()
    constant = boost(X * 0, data(0)[1], np.ones(len(X), np.float32), np.zeros(3, bool), Boosting())
    assert len(constant.leaf) == 0
