"""How labels added later get their vectors in a dual encoder with a classifier: estimated once, after training.

The dual encoder encodes a new label's text; the classifier's part has to be estimated (`Dual.of_new`). Trained labels
taken as if they were new show how low such guesses score: all are lifted until guessed labels are among the best ten of
training texts (the best tenth where there are few labels) as often as trained ones.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from treetop.core.dataset import Ints
from treetop.core.types import Floats
from treetop.edit.vectors import DEPTH, FEW, MOST, fit_map
from treetop.rank.dual import Dual

SAMPLE = 4096  # trained labels that serve as new ones
BLOCK = 1 << 14  # labels whose margins are held at a time


def with_map(rank: Dual, queries: Floats, counts: Ints) -> Dual:
    """The same with a map from label texts to the classifier's vectors, if there is a classifier and enough trained
    labels.

    `queries` (texts, width) are search vectors of training texts, `counts` (labels,) say how often labels were seen.
    """
    seen = np.flatnonzero(counts > 0)
    if set(rank.widths) != {"dual", "classifier"} or len(seen) < FEW or len(queries) == 0:
        return rank
    rows = np.sort(np.random.default_rng(5).permutation(seen)[:SAMPLE])
    odds = np.log(np.append(counts[rows], counts[rows].mean()) + 0.5).astype(np.float32)  # but for a number
    first, second = (queries[:, rank.place(head)] for head in ("dual", "classifier"))
    T, V = rank.texts(rows), np.column_stack([rank.part("classifier")[rows], rank.bias[rows]])
    text_map, _, left_out = fit_map(T, V, odds, second.mean(0))
    guess = (left_out + rank.neighbours(T, seen, own=rows)) / 2
    margins = first @ T.T + second @ guess[:, :-1].T + guess[:, -1]
    depth = min(DEPTH, int(MOST * len(seen)))
    lift = np.quantile(kth_margin(rank, queries, seen, depth)[:, None] - margins, depth / len(seen))
    offset = text_map.offset.copy()
    offset[-1] += np.float32(2 * lift)  # the map counts half
    new = replace(text_map, offset=offset)
    return Dual(rank.weight, rank.bias, widths=rank.widths, text=rank.text, new=new)


def kth_margin(rank: Dual, queries: Floats, seen: NDArray[np.integer], depth: int) -> Floats:
    """(texts,) the margin of the last of each text's best `depth` labels."""
    best = np.zeros((len(queries), 0), np.float32)
    for start in range(0, len(seen), BLOCK):
        block = seen[start : start + BLOCK]
        best = np.hstack([best, queries @ rank.weight[block].T + rank.bias[block]])
        best = -np.partition(-best, min(depth, best.shape[1]) - 1, axis=1)[:, :depth]
    return best.min(1)
