"""Piecewise linear maps by bins, bit for bit as numpy has them."""

import numpy as np
import pytest

from treetop.kernels import interpolate, reference

BOUNDS = (10, 100)


def knots(rng, length):
    """Rising maps with steps (equal x) and flat parts (equal y)."""
    x = np.sort(rng.choice(np.linspace(0, 1, 4 * length), (3, length)).astype(np.float32), axis=1)
    y = np.sort(rng.choice(np.linspace(0, 1, 4 * length), (3, length)).astype(np.float32), axis=1)
    return np.ascontiguousarray(np.stack([x, y]))


@pytest.mark.parametrize("length", [1, 2, 3, 7, 200])
@pytest.mark.parametrize("n", [0, 1, 5, 1000])
def test_as_numpy(n, length):
    rng = np.random.default_rng(n + length)
    maps = knots(rng, length)
    anywhere = rng.uniform(-0.2, 1.2, n).astype(np.float32)
    values = np.where(rng.random(n) < 0.5, rng.choice(maps[0].ravel(), n), anywhere).astype(np.float32)
    counts = rng.choice([0, 9, 10, 11, 99, 100, 101, 10**12], n)
    maps.flags.writeable = False
    found = interpolate.interpolate(values, counts, BOUNDS, maps)
    assert found.dtype == np.float32
    assert found.tobytes() == reference.interpolate(values, counts, BOUNDS, maps).tobytes()


def test_values_far_outside():
    maps = knots(np.random.default_rng(0), 5)
    values, counts = np.array([-np.inf, np.inf, -1e30, 1e30], np.float32), np.full(4, 50)
    expected = [maps[1, 1, 0], maps[1, 1, -1]] * 2
    assert interpolate.interpolate(values, counts, BOUNDS, maps).tolist() == [float(y) for y in expected]
    assert np.isnan(interpolate.interpolate(np.array([np.nan], np.float32), counts[:1], BOUNDS, maps)).all()
