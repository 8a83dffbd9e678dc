"""How good on frequent and on rare labels: each bin's share of P@5 and its recall at 10.

Two cuts by training count: fixed (head, torso, tail) and five bins that each hold a fifth of all label occurrences.
Labels never seen in training have a bin of their own, which completes both cuts: shares add up to P@5.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treetop.core.dataset import Ints, LabelSet
from treetop.evaluate.match import Matches

VOLUMES = 5


def bins(matches: Matches) -> list[dict[str, Any]]:
    """Rows for `Scores.bins`: head, torso, tail, volume 1 (most frequent) to 5, unseen."""
    counts = matches.counts
    volume = equal_volume(counts, matches.labels)
    members = {
        "head": ("frequency", counts > 100),
        "torso": ("frequency", (counts > 10) & (counts <= 100)),
        "tail": ("frequency", (counts > 0) & (counts <= 10)),
        **{f"volume {i + 1}": ("volume", volume == i) for i in range(VOLUMES)},
        "unseen": ("both", counts == 0),
    }
    correct5, correct10 = matches.correct(5), matches.correct(10)
    rows = []
    for name, (cut, inside) in members.items():
        positives = int(matches.positives[inside].sum())
        tested = inside & (matches.positives > 0)
        rows.append(
            {
                "name": name,
                "cut": cut,
                "labels": int(inside.sum()),
                "train_counts": [int(counts[inside].min()), int(counts[inside].max())] if inside.any() else [],
                "positives": positives,
                "P@5_share": 100.0 * int(correct5[inside].sum()) / (5 * len(matches)),
                "R@10": 100.0 * int(correct10[inside].sum()) / max(positives, 1),
                "C@10": 100.0 * int((correct10[tested] > 0).sum()) / max(int(tested.sum()), 1),
            }
        )
    return rows


def equal_volume(counts: Ints, labels: LabelSet) -> NDArray[np.int8]:
    """Bin 0 (most frequent) to 4 of each label, -1 for unseen ones; every bin holds a fifth of all occurrences.

    Where equally frequent labels lie on both sides of a cut, label ids decide, so the order of columns does not.
    """
    volume = np.full(len(counts), -1, np.int8)
    order = np.argsort(-counts, kind="stable")
    order = order[: int((counts > 0).sum())]
    sizes = counts[order]
    total = int(sizes.sum())
    if total == 0:
        return volume
    # a label belongs where the middle of its stretch of occurrences lies
    place = ((2 * np.cumsum(sizes) - sizes) * VOLUMES // (2 * total)).astype(np.int8)
    edges = np.concatenate([[0], np.flatnonzero(np.diff(sizes)) + 1, [len(sizes)]])
    for start, stop in pairwise(edges.tolist()):
        if place[start] != place[stop - 1]:
            ids = [labels.ids[int(column)] for column in order[start:stop]]
            order[start:stop] = order[start:stop][sorted(range(len(ids)), key=ids.__getitem__)]
    volume[order] = place
    return volume
