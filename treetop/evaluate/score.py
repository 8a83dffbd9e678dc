"""One call from a ranking, or from a model, to `Scores`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treetop.core.dataset import Dataset, Ints
from treetop.core.errors import InputError
from treetop.core.types import Ranking, Scores
from treetop.evaluate.bootstrap import resampled
from treetop.evaluate.match import DEPTH, Matches, Ranks, match
from treetop.evaluate.metrics import KS, METRICS, checked_ks, facts, label_wise, rates
from treetop.evaluate.slices import bins
from treetop.evaluate.trust import at_thresholds


def evaluate_model(
    model: Ranks,
    dataset: Dataset,
    *,
    ks: Sequence[int] = KS,
    resamples: int = 1000,
    seed: int = 0,
    strict: bool = False,
) -> Scores:
    """Scores of a model on the documents of a dataset; labels the model does not know count as misses."""
    if not isinstance(dataset, Dataset):
        raise InputError(
            f"evaluate: expected a Dataset, got {type(dataset).__name__}. Make one with Dataset.read or from_frame."
        )
    ks = checked_ks(ks)
    return score_matches(match(model, dataset, depth=max(ks), strict=strict), ks=ks, resamples=resamples, seed=seed)


def score(
    ranking: Ranking,
    dataset: Dataset,
    counts: Ints,
    n_train: int,
    *,
    ks: Sequence[int] = KS,
    resamples: int = 1000,
    seed: int = 0,
) -> Scores:
    """All metrics of a ranking with 95 % intervals (none when `resamples` is 0) and frequency bins.

    The first columns of `dataset` are the model's labels (`Dataset.align`); `counts` and `n_train` come from training.
    """
    ks = checked_ks(ks)
    matches = Matches.of(ranking, dataset, counts, n_train, depth=max(DEPTH, *ks))
    return score_matches(matches, ks=ks, resamples=resamples, seed=seed)


def score_matches(matches: Matches, *, ks: Sequence[int] = KS, resamples: int = 1000, seed: int = 0) -> Scores:
    """The same for rankings matched already."""
    if type(resamples) is not int or resamples < 0:
        raise InputError(f"resamples: {resamples!r} is out of range. Allowed: whole numbers; 0 disables intervals.")
    ks = checked_ks(ks)
    cuts = np.array(ks, np.int64)
    scores = {name: float(value) for name, value in rates(matches.sums(cuts), len(matches), ks).items()}
    scores = label_wise(matches, ks) | scores
    names = [f"{metric}@{k}" for metric in METRICS for k in ks]
    values = {name: scores[name] for name in (*names, *(name for name in scores if name not in names))}
    intervals = {}
    if resamples:
        drawn = rates(resampled([matches], cuts, resamples, seed)[0], len(matches), ks)
        for name in [name for name in values if name in drawn]:
            low, high = np.percentile(drawn[name], [2.5, 97.5])
            intervals[name] = (float(low), float(high))
    return Scores(values, intervals, bins(matches), facts(matches), at_thresholds(matches))
