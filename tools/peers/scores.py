"""One evaluator for every system, ours: saved top-k ids in, precision, propensity-scored precision and coverage out."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from tools.peers.matrices import Matrices
from treetop.core.dataset import Dataset, LabelSet
from treetop.core.texts import Texts
from treetop.core.types import Ranking
from treetop.evaluate.score import score

KEPT = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5", "nDCG@5", "R@5", "C@5")


def score_ids(matrices: Matrices, ids: NDArray[np.integer]) -> dict[str, dict[str, float]]:
    """`scores` of top-k ids (n, k), -1 for nothing, in percent (A 0.55, B 1.5).

    A data set with filter pairs gets `scores_filtered` too: no peer knows of the filter in training, so both are told.
    """
    Y_train, Y_test = matrices.load("Y_train"), matrices.load("Y_test")
    counts = np.bincount(Y_train.indices, minlength=Y_train.shape[1])
    labels = LabelSet.of([str(i) for i in range(Y_test.shape[1])])
    texts = Texts.of([""] * Y_test.shape[0])
    test = Dataset(texts, Y_test, labels, filter_pairs=matrices.filter_pairs, name=matrices.name)
    made = {}
    plain = dataclasses.replace(test, filter_pairs=None)
    for name, dataset in (("scores", plain), ("scores_filtered", test))[: 1 if test.filter_pairs is None else 2]:
        found = score(_ranking(ids), dataset, counts, Y_train.shape[0], ks=(1, 3, 5), resamples=0)
        made[name] = {metric: found.values[metric] for metric in KEPT}
    return made


def _ranking(ids: NDArray[np.integer]) -> Ranking:
    """The peers' own order is the ranking; falling scores only say so in our terms."""
    there = ids >= 0
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(there.sum(1))])
    falling = np.broadcast_to(-np.arange(ids.shape[1], dtype=np.float32), ids.shape)[there]
    return Ranking(indptr, ids[there].astype(np.int32), falling, falling)
