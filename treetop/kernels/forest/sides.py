"""Which documents of a node go together: two sides, each with one ranking of labels that serves its documents.

A document goes to the side whose ranking gives it the larger nDCG, a side's ranking is that of its documents' gains:
both in turn until little changes (FastXML, KDD 2014, section 4). With gains of 1 / propensity it is the
propensity-scored nDCG (PfastreXML, KDD 2016). Twin: `slow.py`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treetop.kernels.runtime.compile import kernel, tight
from treetop.kernels.sparse import F32, U32

ENOUGH = 1e-4  # mean gain of nDCG below which sides are settled


class Gains(NamedTuple):
    """Labels of the documents of a node, numbered in ascending order of their columns, and what a hit on each earns."""

    ptr: U32
    labels: U32
    values: F32
    ideal: F32  # (documents,) 1 / DCG of as many hits as the document has labels; 0 without labels
    n_labels: int


@kernel
def coin_sides(n: int, state: Any) -> Any:
    """(n,) +1 or -1 at random."""
    made = np.empty(n, np.int8)
    for i in range(n):
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        made[i] = 1 if (state >> np.uint64(40)) & np.uint64(1) else -1
    return made


@tight
def _sum_gains(gains: Gains, side: Any, sums: Any) -> None:
    """sums[s, l]: what label l earns the documents of side s."""
    sums[:] = 0.0
    for i in range(len(side)):
        s = np.uint32(1) if side[i] > 0 else np.uint32(0)
        for p in range(gains.ptr[i], gains.ptr[i + 1]):
            sums[s, gains.labels[p]] += np.float64(gains.values[p]) * np.float64(gains.ideal[i])


@kernel
def _discounts(sums: Any, keys: Any, discount: Any) -> None:
    """Replace each side's sums by the discounts of its labels' places: by sum, ties by label; those of 0 come last."""
    n = sums.shape[1]
    for s in range(2):
        m = 0
        for label in range(n):
            if sums[s, label] > 0.0:
                bits = np.uint64(np.float32(sums[s, label]).view(np.uint32))
                keys[m] = ((np.uint64(0xFFFFFFFF) - bits) << np.uint64(32)) | np.uint64(label)
                m += 1
        place = m
        for label in range(n):
            if not sums[s, label] > 0.0:
                sums[s, label] = discount[place]
                place += 1
        ordered = np.sort(keys[:m])
        for k in range(m):
            sums[s, ordered[k] & np.uint64(0xFFFFFFFF)] = discount[k]


@tight
def _choose(gains: Gains, side: Any, discounts: Any, pull: Any) -> Any:
    """Send every document where its nDCG (and `pull` to the positive side) is larger; (mean nDCG, documents moved)."""
    total, moved = 0.0, 0
    for i in range(len(side)):
        below, above = 0.0, 0.0
        for p in range(gains.ptr[i], gains.ptr[i + 1]):
            g, label = np.float64(gains.values[p]), gains.labels[p]
            below += g * discounts[0, label]
            above += g * discounts[1, label]
        better = (above - below) * np.float64(gains.ideal[i]) + pull[i]
        wanted = np.int8(1) if better > 0.0 else np.int8(-1) if better < 0.0 else side[i]
        moved += wanted != side[i]
        side[i] = wanted
        total += np.float64(gains.ideal[i]) * (above if wanted > 0 else below)
    return total / max(len(side), 1), moved


@kernel
def split(gains: Gains, side: Any, pull: Any, discount: Any, passes: int) -> int:
    """Both updates in turn, `side` in place, until the mean nDCG settles; returns the documents on the positive side.

    `pull` is what a document earns by being on the positive side besides its ranking: the difference of its losses.
    """
    sums = np.empty((2, gains.n_labels))
    keys = np.empty(gains.n_labels, np.uint64)
    last = -np.inf
    for _ in range(passes):
        _sum_gains(gains, side, sums)
        _discounts(sums, keys, discount)
        mean, moved = _choose(gains, side, sums, pull)
        if moved == 0 or mean - last < ENOUGH * abs(mean):
            break
        last = mean
    positive = 0
    for i in range(len(side)):
        positive += side[i] > 0
    return positive
