from __future__ import annotations

import numpy as np
import pytest

from ranking_cases import dataset_of, random_case, ranking_of
from treetop.core.errors import InputError
from treetop.evaluate import bootstrap, match
from treetop.evaluate.match import Matches
from treetop.evaluate.paired import difference
from treetop.evaluate.score import score
from treetop.kernels.runtime import threads


def coin_case(flags: np.ndarray):
    """One label a row; row i is a hit where flags[i]."""
    ranking = ranking_of([{0 if flag else 1: 1.0} for flag in flags])
    return ranking, dataset_of([{0: 1.0}] * len(flags), 2), np.array([5, 5]), 100


def test_interval_of_a_mean_has_the_known_width():
    flags = np.random.default_rng(0).random(2000) < 0.3
    found = score(*coin_case(flags), resamples=2000)
    p = flags.mean()
    half = 196 * np.sqrt(p * (1 - p) / 2000)
    low, high = found.intervals["P@1"]
    assert found["P@1"] == pytest.approx(100 * p)
    assert (high - low) / 2 == pytest.approx(half, rel=0.08)
    assert (high + low) / 2 == pytest.approx(100 * p, abs=0.2)


def test_blocks_draw_as_one_multinomial(monkeypatch):
    """Rows drawn block by block must vary as much between blocks as a plain draw does."""
    monkeypatch.setattr(bootstrap, "BLOCK", 100)
    monkeypatch.setattr(match, "BLOCK", 100)
    flags = np.arange(1000) < 500  # hits fill the first five blocks: all variance lies between blocks
    low, high = score(*coin_case(flags), resamples=2000).intervals["P@1"]
    assert (high - low) / 2 == pytest.approx(196 * np.sqrt(0.25 / 1000), rel=0.08)


def test_same_seed_same_bits_for_any_threads(monkeypatch):
    monkeypatch.setattr(bootstrap, "BLOCK", 16)
    monkeypatch.setattr(match, "BLOCK", 16)
    case = random_case(1)
    found = []
    for n in (1, 3):
        with threads.limited(n):
            found.append(score(*case.arguments, resamples=100, seed=4))
    assert found[0] == found[1]
    assert score(*case.arguments, resamples=100, seed=5).intervals != found[0].intervals


def test_intervals_hold_their_value_and_leave_label_wise_metrics_out():
    found = score(*random_case(8).arguments, resamples=300)
    for name, (low, high) in found.intervals.items():
        assert low <= found[name] <= high
    missing = {name.split("@")[0] for name in found.values if name not in found.intervals}
    assert missing == {"C", "macroF1"}
    assert score(*random_case(8).arguments, resamples=0).intervals == {}


def matched(flags):
    return Matches.of(*coin_case(flags))


def test_p_value_of_the_sign_test():
    """10 documents differ, 9 in favour: two-sided sign test gives 22 / 1024."""
    first, second = np.zeros(40, bool), np.zeros(40, bool)
    second[:9], first[9] = True, True
    found = difference(matched(first), matched(second), flips=40000)["P@1"]
    assert found.value == pytest.approx(20)
    assert found.p == pytest.approx(22 / 1024, abs=0.004)


def test_equal_models_do_not_differ():
    case = matched(np.arange(50) % 2 == 0)
    for found in difference(case, case, flips=99).values():
        assert found.value == 0 and found.interval == (0, 0) and found.p == 1


def test_pairing_narrows_the_interval():
    rng = np.random.default_rng(3)
    first = rng.random(1000) < 0.5
    second = first.copy()
    second[rng.permutation(np.flatnonzero(~first))[:20]] = True
    found = difference(matched(first), matched(second), ks=(1,))["P@1"]
    low, high = found.interval
    assert found.value == pytest.approx(2) and low > 0.9 and high < 3.1  # unpaired it would be 2 ± 4.4
    assert found.p < 0.001
    back = difference(matched(second), matched(first), ks=(1,))["P@1"]
    assert back.value == -found.value and back.p == found.p


def test_unlike_documents_are_refused():
    case = random_case(9)
    with pytest.raises(InputError, match="not matched with the same documents"):
        difference(Matches.of(*case.arguments), matched(np.ones(120, bool)))
