"""Labels that the sources of a model return for held-out documents, with their scores and whether they are right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from treetop.core.dataset import Csr, Dataset, Ints
from treetop.core.types import Floats, Ranking
from treetop.evaluate.propensity import inverse_propensity
from treetop.predict.fuse.pairs import Pairs

HARD = 20  # negatives that some source ranks among its first HARD are all kept
EASY = 8  # of the other negatives one in EASY is sampled


class Quality(NamedTuple):
    """Precision at 1 and 5, and propensity-scored precision at 5 up to a constant factor."""

    p1: float
    p5: float
    psp5: float


@dataclass(frozen=True, eq=False)
class Judged:
    """(document, label) pairs: whether each is right, its weight, and the label's inverse propensity (`gain`)."""

    pairs: Pairs
    hit: Floats
    weight: Floats
    gain: Floats

    @classmethod
    def of(cls, sources: Sequence[Ranking], dataset: Dataset, counts: Ints, n_train: int) -> Judged:
        """The pairs in rankings of the rows of `dataset`, without those that its filter excludes."""
        if dataset.ignored is not None:
            sources = [source.where(~_is_stored(source, dataset.ignored)) for source in sources]
        pairs = Pairs.of(sources)
        hit = _is_stored(Ranking(pairs.indptr, pairs.ids, pairs.score[:, 0], pairs.score[:, 0]), dataset.Y)
        gain = inverse_propensity(counts, n_train, *dataset.propensity)[pairs.ids]
        ones = np.ones(len(pairs), np.float32)
        return cls(pairs, hit.astype(np.float32), ones, gain.astype(np.float32))

    def sampled(self, seed: int) -> Judged:
        """Fewer easy negatives, each weighted by the number it stands for."""
        hard = np.zeros(len(self.hit), bool)
        for s in range(self.pairs.score.shape[1]):
            hard |= positions(self.pairs, self.pairs.score[:, s]) < HARD
        drawn = np.random.default_rng(seed).random(len(hard)) * EASY < 1
        kept = hard | (self.hit > 0) | drawn
        weight = np.where(hard | (self.hit > 0), 1.0, EASY).astype(np.float32)
        return replace(self, weight=weight).where(kept)

    def rows_where(self, chosen: NDArray[np.bool_]) -> Judged:
        """The pairs of some documents."""
        return self.where(chosen[self.pairs.rows])

    def where(self, kept: NDArray[np.bool_]) -> Judged:
        """These pairs only; a document that loses all its pairs still counts as a document."""
        pairs = self.pairs
        running = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])
        kept_pairs = Pairs(running[pairs.indptr], pairs.ids[kept], pairs.score[kept], pairs.found[kept], pairs.best)
        return Judged(kept_pairs, self.hit[kept], self.weight[kept], self.gain[kept])

    def quality(self, score: NDArray[np.floating]) -> Quality:
        """Quality of the ranking by `score`, averaged over all documents."""
        n = max(1, len(self.pairs.indptr) - 1)
        position = positions(self.pairs, score)
        first, five = self.hit * (position < 1), self.hit * (position < 5)
        return Quality(float(first.sum()) / n, float(five.sum()) / (5 * n), float((five * self.gain).sum()) / (5 * n))


def positions(pairs: Pairs, score: NDArray[np.floating]) -> Ints:
    """(pairs,) position of each pair in its document's ranking, from 0; ties in score go to the lower label id."""
    order = np.lexsort((pairs.ids, -score, pairs.rows))
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order)) - pairs.indptr[:-1][pairs.rows[order]]
    return position


def _is_stored(ranking: Ranking, matrix: Csr) -> NDArray[np.bool_]:
    """(entries,) whether each (document, label) of a ranking is stored in the matrix."""
    width = np.int64(max(matrix.shape[1], 1))
    stored = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr)) * width + matrix.indices
    rows = np.repeat(np.arange(len(ranking), dtype=np.int64), np.diff(ranking.indptr))
    return np.isin(rows * width + ranking.ids, stored)
