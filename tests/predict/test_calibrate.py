"""Scores as probabilities: maps, thresholds, and damaged ones."""

import numpy as np
import pytest

from treetop.core.errors import ConfigError, ModelError
from treetop.predict.calibrate import Calibration, frequency_bin


def calibration(documents=1000):
    x = np.array([0.0, 0.5, 1.0])
    knots = np.stack([np.stack([x] * 3), np.array([[0.0, 0.1, 0.2], [0.0, 0.4, 0.5], [0.0, 0.5, 0.9]])])
    cuts = np.array([[0.1, 0.3, 0.5, 0.7], [0.2, 0.6, 0.55, 0.95], [0.9, 0.6, 0.4, 0.1]])
    return Calibration(knots.astype(np.float32), cuts.astype(np.float32), documents)


def test_each_bin_of_frequency_has_its_own_map():
    assert frequency_bin(np.array([0, 10, 11, 100, 101])).tolist() == [0, 0, 1, 1, 2]
    p = calibration().probabilities(np.full(3, 0.75, np.float32), np.array([3, 50, 500]))
    np.testing.assert_allclose(p, [0.15, 0.45, 0.7], atol=1e-6)
    outside = calibration().probabilities(np.array([-5.0, 7.0], np.float32), np.array([500, 500]))
    np.testing.assert_allclose(outside, [0.0, 0.9], atol=1e-6)


def test_the_lowest_threshold_of_a_precision():
    assert calibration().threshold_for_precision(0.55) == pytest.approx(0.3)
    assert calibration().threshold_for_precision(0.9) == pytest.approx(0.7)
    assert calibration().threshold_for_precision(0.99) is None
    with pytest.raises(ConfigError, match="precision: 1.5 is out of range"):
        calibration().threshold_for_precision(1.5)


def test_the_highest_threshold_of_a_recall():
    assert calibration().threshold_for_recall(0.5) == pytest.approx(0.3)
    assert calibration(documents=2).threshold_for_recall(0.5) == pytest.approx(0.1)  # few documents: on the safe side
    with pytest.raises(ConfigError, match=r"0\.95 is out of reach.*0\.899"):
        calibration().threshold_for_recall(0.95)


def test_it_is_stored_and_damage_is_refused():
    part = calibration().to_part()
    again = Calibration.from_part(part)
    assert np.array_equal(again.knots, calibration().knots) and again.documents == 1000
    for name, change in (("knots", lambda a: -a), ("cuts", lambda a: a[:, ::-1]), ("cuts", lambda a: a + 1)):
        arrays = {**part.arrays, name: np.ascontiguousarray(change(part.arrays[name]))}
        with pytest.raises(ModelError, match="fall or leave"):
            Calibration.from_part(type(part)(part.kind, part.config, arrays))
