"""Bootstrap intervals: documents are resampled with replacement and metrics computed from the sums of each sample.

Rows are drawn in two steps, first how many fall into each block, then which of the block: together exactly a
multinomial draw, but only one block's sums are in memory and the bits do not depend on threads.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treetop.core.dataset import Ints
from treetop.evaluate.match import BLOCK, Matches
from treetop.kernels.metrics import Doubles, chosen_sums, drawn_sums
from treetop.kernels.runtime import threads


def resampled(models: Sequence[Matches], cuts: Ints, resamples: int, seed: int) -> list[Doubles]:
    """Column sums (resamples, columns) of each model; all models see the same draws."""
    n = len(models[0])
    ranges = threads.blocks(n, BLOCK)
    sizes = np.array([stop - start for start, stop in ranges])
    falls = np.random.default_rng([seed, 0]).multinomial(n, sizes / n, size=resamples)  # (resamples, blocks)

    def block(start: int, stop: int) -> Doubles:
        number = start // BLOCK
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(falls[:, number])])
        rng = np.random.default_rng([seed, 1, number])
        draws = rng.integers(0, stop - start, size=int(starts[-1]), dtype=np.uint16)
        table = np.hstack([model.table(start, stop, cuts) for model in models])
        sums = np.empty((resamples, table.shape[1]))
        drawn_sums(table, draws, starts, sums)
        return sums

    total = np.zeros((resamples, len(models) * (8 * len(cuts) + 1)))
    for part in threads.stream(block, ranges):
        total += part
    return np.split(total, len(models), axis=1)


def swapped(first: Matches, second: Matches, cuts: Ints, flips: int, seed: int) -> tuple[Doubles, Doubles]:
    """Column sums of two models after exchanging their rankings on a random half of the documents, `flips` times."""
    a, b = first.sums(cuts), second.sums(cuts)

    def block(start: int, stop: int) -> Doubles:
        gain = second.table(start, stop, cuts) - first.table(start, stop, cuts)
        gain = gain[gain.any(axis=1)]  # documents on which both agree change nothing
        rng = np.random.default_rng([seed, 2, start // BLOCK])
        chosen = rng.integers(0, 256, size=(flips, (len(gain) + 7) // 8), dtype=np.uint8)
        sums = np.empty((flips, gain.shape[1]))
        chosen_sums(gain, chosen, sums)
        return sums

    moved = np.zeros((flips, len(a)))
    for part in threads.stream(block, threads.blocks(len(first), BLOCK)):
        moved += part
    return a + moved, b - moved
