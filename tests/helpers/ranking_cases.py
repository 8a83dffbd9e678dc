"""Random rankings and targets with everything that can go wrong in them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from treetop.core.dataset import Dataset, LabelSet
from treetop.core.texts import Texts
from treetop.core.types import Ranking


@dataclass
class Case:
    ranking: Ranking
    dataset: Dataset
    counts: np.ndarray
    n_train: int
    scores: list[dict[int, float]]  # the ranking as plain data

    @property
    def arguments(self):
        return self.ranking, self.dataset, self.counts, self.n_train

    @property
    def barred(self):
        pairs = [] if self.dataset.filter_pairs is None else self.dataset.filter_pairs.tolist()
        return [{label for at, label in pairs if at == row} for row in range(len(self.dataset))]

    @property
    def true(self):
        Y = self.dataset.Y.toarray()
        return [set(np.flatnonzero(row > 0).tolist()) for row in Y]


def ranking_of(scores: list[dict[int, float]]) -> Ranking:
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in scores])]).astype(np.int64)
    ids = np.array([label for row in scores for label in row], np.int32)
    return Ranking.sorted(indptr, ids, np.array([x for row in scores for x in row.values()], np.float32))


def dataset_of(true: list[dict[int, float]], n_labels: int, **extra) -> Dataset:
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in true])])
    columns = np.array([label for row in true for label in sorted(row)], np.int32)
    data = np.array([row[label] for row in true for label in sorted(row)], np.float32)
    Y = sparse.csr_matrix((data, columns, indptr), (len(true), n_labels))
    texts = Texts.of([""] * len(true))
    return Dataset(texts, Y, LabelSet.of([f"l{i}" for i in range(n_labels)]), **extra)


def random_case(seed: int, *, rows: int = 120, n_labels: int = 40, unknown: int = 4, deep: int = 25) -> Case:
    """Ties, empty rows, rows with more labels than k, short and empty rankings, filters, soft targets, stored zeros."""
    rng = np.random.default_rng(seed)
    counts = np.minimum(rng.zipf(1.4, n_labels - unknown), 400).astype(np.int64)
    counts[rng.random(n_labels - unknown) < 0.1] = 0
    true, scores, pairs = [], [], []
    for row in range(rows):
        labels = rng.permutation(n_labels)[: rng.choice([0, 1, 2, 5, 15])].tolist()
        true.append({label: float(rng.choice([0.0, 0.25, 0.7, 1.0, 1.0])) for label in labels})
        guesses = rng.permutation(n_labels - unknown)[: rng.choice([0, 2, 7, deep])].tolist()
        guesses = list(dict.fromkeys([label for label in labels if label < n_labels - unknown][:3] + guesses))
        scores.append({label: float(rng.integers(-2, 3)) / 2 for label in guesses})  # five values only: many ties
        pairs += [(row, label) for label in rng.permutation(n_labels)[: rng.choice([0, 0, 3, 12])].tolist()]
    dataset = dataset_of(true, n_labels, filter_pairs=np.array(pairs, np.int64), propensity=(0.6, 2.6))
    return Case(ranking_of(scores), dataset, counts, 1000, scores)
