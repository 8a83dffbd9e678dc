"""Calibration: maps from scores to probabilities, fitted on held-out documents."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treetop.assemble.held_out.judged import Judged, positions
from treetop.assemble.held_out.rising import rising_rate
from treetop.core.dataset import Ints
from treetop.core.errors import InputError
from treetop.core.types import Floats
from treetop.predict.calibrate import BINS, Calibration, frequency_bin

MIN_DOCUMENTS = 500  # with fewer, estimates for rare labels and high thresholds are too noisy
KNOTS = 100
SHOWN = 5  # labels per document that users see; further down, the same score is right less often
UNSHOWN_WEIGHT = 0.1  # weight of the pairs below them
CUTS = 1000


def learn_calibration(judged: Judged, counts: Ints, positives: Ints) -> Calibration:
    """Fit the maps to a single ranking of the held-out documents, which have `positives` true labels each."""
    n = len(positives)
    if n < MIN_DOCUMENTS:
        raise InputError(
            f"calibration: {n:,} held-out documents, at least {MIN_DOCUMENTS} are needed. Give more, or go on without "
            "probabilities."
        )
    if len(judged.pairs) == 0:
        raise InputError(
            "calibration: the model returns no label for any held-out document. Give documents similar to those it was "
            "trained on."
        )
    score, frequency = judged.pairs.score[:, 0], counts[judged.pairs.ids]
    bins = frequency_bin(frequency)
    weight = np.where(positions(judged.pairs, score) < SHOWN, 1.0, UNSHOWN_WEIGHT).astype(np.float32)
    maps = [
        _map(score, judged.hit, weight, bins == b if (judged.hit[bins == b] > 0).any() else bins >= 0)
        for b in range(BINS)
    ]
    knots: Floats = np.stack(maps, axis=1).astype(np.float32)
    calibration = Calibration(knots, np.zeros((3, 1), np.float32), n)
    p = calibration.probabilities(score, frequency)
    return Calibration(knots, _cuts(p, judged.hit, judged.pairs.rows, positives), n)


def _map(score: Floats, hit: Floats, weight: Floats, chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
    return np.stack(rising_rate(score[chosen], hit[chosen], weight[chosen], KNOTS))


def _cuts(p: Floats, hit: Floats, rows: Ints, positives: Ints) -> Floats:
    """(3, thresholds) rows: threshold, precision and mean recall of the labels at or above it."""
    levels, right = np.linspace(0, 1, CUTS), p[hit > 0] if (hit > 0).any() else p
    threshold = np.unique(np.concatenate([np.quantile(p, levels), np.quantile(right, levels)]))
    bins = np.searchsorted(threshold, p, side="right") - 1
    recalled = hit / np.maximum(positives, 1)[rows]
    n, hits, recall = (np.bincount(np.maximum(bins, 0), w, len(threshold)) for w in (np.ones_like(p), hit, recalled))
    above_n, above_hits, above_recall = (np.cumsum(a[::-1])[::-1] for a in (n, hits, recall))
    labelled = max(1, int((positives > 0).sum()))
    cuts: Floats = np.stack([threshold, above_hits / np.maximum(above_n, 1), above_recall / labelled])
    return np.clip(cuts, 0.0, 1.0).astype(np.float32)
