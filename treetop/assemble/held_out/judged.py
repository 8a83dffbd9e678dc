"""What the sources of a model say of held-out documents, and whether it is right."""

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

HARD, EASY = 20, 8  # negatives that no source ranks so high are sampled, one of so many


class Quality(NamedTuple):
    """Precision at 1 and 5, and propensity-scored precision at 5 up to a constant factor."""

    p1: float
    p5: float
    psp5: float


@dataclass(frozen=True, eq=False)
class Judged:
    """Pairs of held-out documents, whether each is right, how often it counts, and its label's inverse propensity."""

    pairs: Pairs
    hit: Floats
    weight: Floats
    gain: Floats

    @classmethod
    def of(cls, sources: Sequence[Ranking], dataset: Dataset, counts: Ints, n_train: int) -> Judged:
        """Rankings of the rows of `dataset`; pairs that its filter names are left out."""
        if dataset.ignored is not None:
            sources = [source.where(~_among(source, dataset.ignored)) for source in sources]
        pairs = Pairs.of(sources)
        hit = _among(Ranking(pairs.indptr, pairs.ids, pairs.score[:, 0], pairs.score[:, 0]), dataset.Y)
        gain = inverse_propensity(counts, n_train, *dataset.propensity)[pairs.ids]
        ones = np.ones(len(pairs), np.float32)
        return cls(pairs, hit.astype(np.float32), ones, gain.astype(np.float32))

    def sampled(self, seed: int) -> Judged:
        """Fewer easy negatives, each counted as many times as it stands for."""
        near = np.zeros(len(self.hit), bool)
        for s in range(self.pairs.score.shape[1]):
            near |= places(self.pairs, self.pairs.score[:, s]) < HARD
        drawn = np.random.default_rng(seed).random(len(near)) * EASY < 1
        kept = near | (self.hit > 0) | drawn
        weight = np.where(near | (self.hit > 0), 1.0, EASY).astype(np.float32)
        return replace(self, weight=weight).where(kept)

    def rows_where(self, chosen: NDArray[np.bool_]) -> Judged:
        """The pairs of some documents."""
        return self.where(chosen[self.pairs.rows])

    def where(self, kept: NDArray[np.bool_]) -> Judged:
        """Some of the pairs; documents stay."""
        pairs = self.pairs
        running = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])
        some = Pairs(running[pairs.indptr], pairs.ids[kept], pairs.score[kept], pairs.found[kept], pairs.best)
        return Judged(some, self.hit[kept], self.weight[kept], self.gain[kept])

    def quality(self, score: NDArray[np.floating]) -> Quality:
        """Of the ranking by `score`, over all documents."""
        n = max(1, len(self.pairs.indptr) - 1)
        place = places(self.pairs, score)
        first, five = self.hit * (place < 1), self.hit * (place < 5)
        return Quality(float(first.sum()) / n, float(five.sum()) / (5 * n), float((five * self.gain).sum()) / (5 * n))


def places(pairs: Pairs, score: NDArray[np.floating]) -> Ints:
    """(pairs,) the rank of each pair in its document, from 0, by score and then by label."""
    order = np.lexsort((pairs.ids, -score, pairs.rows))
    made = np.empty(len(order), np.int64)
    made[order] = np.arange(len(order)) - pairs.indptr[:-1][pairs.rows[order]]
    return made


def _among(ranking: Ranking, matrix: Csr) -> NDArray[np.bool_]:
    """(entries,) which entries of a ranking are stored in a matrix of documents and labels."""
    width = np.int64(max(matrix.shape[1], 1))
    known = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr)) * width + matrix.indices
    rows = np.repeat(np.arange(len(ranking), dtype=np.int64), np.diff(ranking.indptr))
    return np.isin(rows * width + ranking.ids, known)
