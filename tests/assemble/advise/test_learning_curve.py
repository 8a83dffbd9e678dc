"""Scores at full size from samples: synthetic curves, and measured ones of three data sets."""

import math

import numpy as np
import pytest

from treetop.assemble.advise.curve import borrowed, extrapolated

# P@1 (and P@5) on 739 to 1,947 held-out documents; the last is the full size. Ceilings of P@5: labels per document.
MEASURED = {
    ("reuters", "xr_linear"): (
        [1000, 4000, 7036],
        [0.8647, 0.9256, 0.9499],
        [0.2238, 0.2363, 0.2395],
        0.2457,
    ),
    ("reuters", "neighbours"): (
        [1000, 4000, 7036],
        [0.8281, 0.9026, 0.9215],
        [0.2217, 0.2349, 0.2373],
        0.2457,
    ),
    ("wordnet", "xr_linear"): (
        [2000, 8000, 32000, 76727],
        [0.7446, 0.7909, 0.8412, 0.8628],
        [0.5717, 0.6501, 0.7175, 0.7581],
        0.929,
    ),
    ("wordnet", "neighbours"): (
        [2000, 8000, 32000, 76727],
        [0.7343, 0.7826, 0.8063, 0.8109],
        [0.5691, 0.6309, 0.6798, 0.6973],
        0.929,
    ),
    ("finna", "xr_linear"): (
        [2000, 8000, 32000, 153899],
        [0.0221, 0.0919, 0.2496, 0.4232],
        [0.0157, 0.0539, 0.136, 0.2487],
        0.7903,
    ),
    ("finna", "neighbours"): (
        [2000, 8000, 32000, 153899],
        [0.0385, 0.1305, 0.2522, 0.4037],
        [0.0305, 0.0744, 0.1468, 0.241],
        0.7903,
    ),
}


@pytest.mark.parametrize("name", MEASURED, ids=str)
def test_measured_curves_are_met_within_three_points(name):
    sizes, p1, p5, ceiling = MEASURED[name]
    assert extrapolated(sizes[:-1], p1[:-1], sizes[-1]).value == pytest.approx(p1[-1], abs=0.03)
    assert extrapolated(sizes[:-1], p5[:-1], sizes[-1], ceiling).value == pytest.approx(p5[-1], abs=0.03)


@pytest.mark.parametrize("power", [0.1, 0.3, 0.6])
def test_errors_that_fall_as_a_power_lie_within_the_spread(power):
    def curve(n):
        return 1.0 - 0.9 * (n / 100) ** -power

    sizes = [500, 2000, 8000]
    found = extrapolated(sizes, [curve(n) for n in sizes], 50_000)
    assert abs(found.value - curve(50_000)) <= found.spread + 1e-9


def test_odds_that_rise_lie_near_the_estimate_even_where_scores_are_low():
    def curve(n):
        return 1.0 / (1.0 + math.exp(8.0 - 0.64 * math.log(n)))

    sizes = [500, 2000, 8000]
    found = extrapolated(sizes, [curve(n) for n in sizes], 100_000)
    assert abs(found.value - curve(100_000)) <= found.spread + 0.1


def test_no_curve_leaves_the_range_of_scores_or_falls():
    random = np.random.default_rng(0)
    for _ in range(300):
        n = int(random.integers(1, 5))
        sizes = np.cumsum(random.integers(1, 10**4, n)).tolist()
        ceiling = float(random.random())
        scores = (ceiling * random.random(n)).tolist()
        found = extrapolated(sizes, scores, int(random.integers(1, 10**7)), ceiling)
        assert scores[-1] <= found.value <= max(ceiling, scores[-1], 1e-3) and found.spread >= 0


@pytest.mark.parametrize(
    "scores", [[0.0, 0.0], [1.0, 1.0], [0.5, 0.5], [0.6, 0.4]], ids=["none", "all", "flat", "falling"]
)
def test_curves_that_do_not_rise_stay_where_they_are(scores):
    found = extrapolated([100, 400], scores, 10**6)
    assert found.value == pytest.approx(scores[-1], abs=2e-3) and found.spread < 2e-3


def test_one_sample_or_all_documents_are_taken_as_they_are():
    assert extrapolated([100], [0.5], 10**6) == (0.5, 0.0)
    assert extrapolated([100, 200], [0.5, 0.6], 200) == (0.6, 0.0)


def test_a_single_sample_borrows_half_of_the_rise_of_another_recipe():
    found = borrowed(0.5, 0.2, 0.5)
    assert found.value == pytest.approx(1 / (1 + math.exp(-0.5 * math.log(4)))) and found.spread > 0
    assert borrowed(0.5, 0.5, 0.2).value == 0.5  # a fall is not
    assert borrowed(0.2, 0.1, 0.2, 0.2).value <= 0.2 + 1e-9
