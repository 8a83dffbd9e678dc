"""Maps from scores to probabilities, learnt on held-out documents."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treetop.assemble.held_out.judged import Judged, places
from treetop.assemble.held_out.rising import rising_rate
from treetop.core.dataset import Ints
from treetop.core.errors import InputError
from treetop.core.types import Floats
from treetop.predict.calibrate import BINS, Calibration, frequency_bin

FEWEST = 500  # documents; fewer say too little about rare labels and high thresholds
KNOTS = 100
RETURNED = 5  # labels of a document that users see; further down the same score is less often right
FURTHER = 0.1  # what a pair beyond them counts
CUTS = 1000


def learn_calibration(judged: Judged, counts: Ints, positives: Ints) -> Calibration:
    """From one ranking of held-out documents (its score) with `positives` true labels each."""
    n = len(positives)
    if n < FEWEST:
        raise InputError(
            f"calibration: {n:,} held-out documents, at least {FEWEST} are needed. Scores stay without probabilities."
        )
    if len(judged.pairs) == 0:
        raise InputError("calibration: no label is returned for any held-out document. Give documents like the others.")
    score, counted = judged.pairs.score[:, 0], counts[judged.pairs.ids]
    bins = frequency_bin(counted)
    weight = np.where(places(judged.pairs, score) < RETURNED, 1.0, FURTHER).astype(np.float32)
    maps = [
        _map(score, judged.hit, weight, bins == b if (judged.hit[bins == b] > 0).any() else bins >= 0)
        for b in range(BINS)
    ]
    knots: Floats = np.stack(maps, axis=1).astype(np.float32)
    calibration = Calibration(knots, np.zeros((3, 1), np.float32), n)
    p = calibration.probabilities(score, counted)
    return Calibration(knots, _cuts(p, judged.hit, judged.pairs.rows, positives), n)


def _map(score: Floats, hit: Floats, weight: Floats, chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
    return np.stack(rising_rate(score[chosen], hit[chosen], weight[chosen], KNOTS))


def _cuts(p: Floats, hit: Floats, rows: Ints, positives: Ints) -> Floats:
    """(3, thresholds) each threshold with the precision and the mean recall of the labels at or above it."""
    shares, right = np.linspace(0, 1, CUTS), p[hit > 0] if (hit > 0).any() else p
    threshold = np.unique(np.concatenate([np.quantile(p, shares), np.quantile(right, shares)]))
    bins = np.searchsorted(threshold, p, side="right") - 1
    share = hit / np.maximum(positives, 1)[rows]
    n, hits, recall = (np.bincount(np.maximum(bins, 0), w, len(threshold)) for w in (np.ones_like(p), hit, share))
    above_n, above_hits, above_recall = (np.cumsum(a[::-1])[::-1] for a in (n, hits, recall))
    labelled = max(1, int((positives > 0).sum()))
    cuts: Floats = np.stack([threshold, above_hits / np.maximum(above_n, 1), above_recall / labelled])
    return np.clip(cuts, 0.0, 1.0).astype(np.float32)
