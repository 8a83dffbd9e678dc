"""Is one model better than another on the same documents?

Intervals: both models see the same resampled documents. p-value: if the models were alike, exchanging their rankings
on any document would change nothing; p is how often a random exchange gives a difference as large as the real one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treetop.core.errors import InputError
from treetop.evaluate.bootstrap import resampled, swapped
from treetop.evaluate.match import Matches
from treetop.evaluate.metrics import KS, checked_ks, rates


@dataclass(frozen=True)
class Difference:
    """Second minus first model in percentage points, its 95 % interval and two-sided p-value."""

    value: float
    interval: tuple[float, float]
    p: float


def difference(
    first: Matches,
    second: Matches,
    *,
    ks: Sequence[int] = KS,
    resamples: int = 1000,
    flips: int = 9999,
    seed: int = 0,
) -> dict[str, Difference]:
    """Differences in every row-wise metric; coverage and macro F1 are not sums over rows and have none."""
    if not np.array_equal(first.true_indptr, second.true_indptr):
        raise InputError("compare: the two models were not matched with the same documents.")
    ks = checked_ks(ks)
    cuts, n = np.array(ks, np.int64), len(first)
    a, b = rates(first.sums(cuts), n, ks), rates(second.sums(cuts), n, ks)
    drawn = [rates(sums, n, ks) for sums in resampled([first, second], cuts, resamples, seed)]
    exchanged = [rates(sums, n, ks) for sums in swapped(first, second, cuts, flips, seed)]
    differences = {}
    for name in a:
        value = float(b[name] - a[name])
        low, high = np.percentile(drawn[1][name] - drawn[0][name], [2.5, 97.5])
        # 1e-9: sums added in another order must still count as equally large
        larger = int((np.abs(exchanged[1][name] - exchanged[0][name]) >= abs(value) - 1e-9).sum())
        differences[name] = Difference(value, (float(low), float(high)), (1 + larger) / (1 + flips))
    return differences
