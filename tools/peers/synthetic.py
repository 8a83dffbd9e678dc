"""A data set shaped like Amazon-670K, made from a seed: 135,909 features, 78 per text, Zipf labels, 670,091 ids.

Labels come in topics. A label has features of its own: some from the pool of its topic, some rare ones. A text picks a
topic, a few labels in it by Zipf weight, and takes features from its labels, its topic and a common background. So a
method must find the topic first and the label inside it by few words, as with real product descriptions. Label numbers
tell nothing: a system that falls back on the order of labels must not win by it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treetop.core.dataset import Csr, Ints


@dataclass(frozen=True)
class Shape:
    """Sizes of a synthetic set; the defaults are those of Amazon-670K with 100,000 training texts."""

    n_train: int = 100_000
    n_test: int = 5_000  # before texts without a label seen in training are taken out
    n_features: int = 135_909
    n_labels: int = 670_091
    features_per_text: float = 78.0
    labels_per_text: float = 5.3
    labels_per_topic: int = 300
    topic_pool: int = 400  # features a topic draws from
    own_features: int = 8  # features of one label, half of them rare
    zipf: float = 0.45  # exponent of label weights

    @property
    def n_topics(self) -> int:
        return max(1, self.n_labels // self.labels_per_topic)


SHAPES = {
    "synthetic-670k": Shape(),
    # The same texts over more and more labels: what a label count alone costs.
    "synthetic-10k": Shape(n_train=20_000, n_labels=10_000),
    "synthetic-100k": Shape(n_train=40_000, n_labels=100_000),
    "synthetic-1m": Shape(n_train=200_000, n_labels=1_000_000),
}


def make(shape: Shape, *, seed: int = 0, shuffled: bool = True) -> dict[str, Csr]:
    """X_train, Y_train, X_test, Y_test; texts of the test side keep only labels that occur in training.

    Not `shuffled`, labels of a topic have neighbouring numbers.
    """
    rng = np.random.default_rng(seed)
    n = shape.n_train + shape.n_test
    starts = np.linspace(0, shape.n_labels, shape.n_topics + 1).astype(np.int64)
    pools = _zipf_features(rng, shape, shape.n_topics * shape.topic_pool).reshape(shape.n_topics, -1)
    prototypes = _prototypes(rng, shape, starts, pools)
    weights = rng.permutation((np.arange(shape.n_labels) + 1.0) ** -shape.zipf)
    cumulative = np.concatenate([[0.0], np.cumsum(weights)])
    topics = np.searchsorted(cumulative[starts], rng.random(n) * cumulative[-1], side="right") - 1
    rows, labels = _pick_labels(rng, shape, cumulative, starts[topics + np.array([[0], [1]])])
    X = _texts(rng, shape, _Drawn(topics, rows, labels, pools, prototypes))
    if shuffled:
        labels = np.random.default_rng([seed, shape.n_labels]).permutation(shape.n_labels)[labels]
    Y = sparse.csr_matrix((np.ones(len(rows), np.float32), (rows, labels)), (n, shape.n_labels))
    return _split(X, Y, shape.n_train)


def _zipf_features(rng: np.random.Generator, shape: Shape, size: int) -> NDArray[np.int32]:
    """Feature ids by Zipf's law; low ids are common words."""
    cumulative = np.cumsum((np.arange(shape.n_features) + 30.0) ** -1.0)
    return np.asarray(np.searchsorted(cumulative, rng.random(size) * cumulative[-1]), np.int32)


def _prototypes(
    rng: np.random.Generator, shape: Shape, starts: Ints, pools: NDArray[np.int32]
) -> NDArray[np.int32]:  # (n_labels, own_features)
    topic = np.repeat(np.arange(shape.n_topics), np.diff(starts))
    half = shape.own_features // 2
    near = pools[topic[:, None], rng.integers(0, shape.topic_pool, (shape.n_labels, half))]
    rare = rng.integers(0, shape.n_features, (shape.n_labels, shape.own_features - half), dtype=np.int32)
    return np.concatenate([near, rare], axis=1)


def _pick_labels(
    rng: np.random.Generator, shape: Shape, cumulative: NDArray[np.float64], spans: Ints
) -> tuple[Ints, Ints]:
    """(row, label) pairs without repetition: 1 + Poisson labels per text, by weight inside its span of labels."""
    counts = 1 + rng.poisson(shape.labels_per_text - 1, spans.shape[1])
    rows = np.repeat(np.arange(spans.shape[1]), counts)
    low, high = cumulative[spans[:, rows]]
    labels = np.searchsorted(cumulative, low + rng.random(len(rows)) * (high - low), side="right") - 1
    pairs = np.unique(rows * shape.n_labels + np.minimum(labels, shape.n_labels - 1))
    return pairs // shape.n_labels, pairs % shape.n_labels


@dataclass(frozen=True, eq=False)
class _Drawn:
    """What is known of the texts before they get features."""

    topics: Ints  # (n,)
    rows: Ints  # pairs of text ...
    labels: Ints  # ... and label
    pools: NDArray[np.int32]
    prototypes: NDArray[np.int32]


def _texts(rng: np.random.Generator, shape: Shape, drawn: _Drawn) -> Csr:
    """tf-idf rows: features of the labels first, then of the topic, then background, until the length is reached."""
    n = len(drawn.topics)
    lengths = np.clip(rng.gamma(4.0, shape.features_per_text / 4.0, n), 8, 4 * shape.features_per_text).astype(np.int64)
    kept = rng.random((len(drawn.rows), shape.own_features)) < 0.6
    from_labels = (np.repeat(drawn.rows, kept.sum(1)), drawn.prototypes[drawn.labels][kept])
    topical = np.repeat(np.arange(n), (0.3 * lengths).astype(np.int64))
    from_topic = (topical, drawn.pools[drawn.topics[topical], rng.integers(0, shape.topic_pool, len(topical))])
    behind = np.repeat(np.arange(n), (1.4 * lengths).astype(np.int64))
    background = (behind, _zipf_features(rng, shape, len(behind)))
    rows = np.concatenate([part[0] for part in (from_labels, from_topic, background)])
    features = np.concatenate([part[1] for part in (from_labels, from_topic, background)])
    rows, features = _first_distinct(rows, features.astype(np.int64), lengths, shape.n_features)
    values = np.ones(len(rows), np.float32)
    return _weigh(sparse.csr_matrix((values, (rows, features)), (n, shape.n_features)), shape.n_train)


def _first_distinct(rows: Ints, features: Ints, lengths: Ints, n_features: int) -> tuple[Ints, Ints]:
    """The first `lengths[row]` different features of each row, in the order they were drawn."""
    _, first = np.unique(rows * n_features + features, return_index=True)
    order = first[np.lexsort((first, rows[first]))]
    rows, features = rows[order], features[order]
    begin = np.searchsorted(rows, np.arange(len(lengths)))
    kept = np.arange(len(rows)) - begin[rows] < lengths[rows]
    return rows[kept], features[kept]


def _weigh(X: Csr, n_train: int) -> Csr:
    """Inverse document frequency of the training side, then unit rows."""
    counts = np.bincount(X.indices[: X.indptr[n_train]], minlength=X.shape[1])
    X.data = (np.log((1.0 + n_train) / (1.0 + counts)) + 1.0).astype(np.float32)[X.indices]
    squares = np.add.reduceat(X.data.astype(np.float64) ** 2, X.indptr[:-1]) if X.nnz else np.zeros(X.shape[0])
    X.data /= np.repeat(np.sqrt(squares), np.diff(X.indptr)).astype(np.float32)
    X.sort_indices()
    return X


def _split(X: Csr, Y: Csr, n_train: int) -> dict[str, Csr]:
    Y_train, Y_test = Y[:n_train], Y[n_train:]
    seen = np.bincount(Y_train.indices, minlength=Y.shape[1]) > 0
    Y_test.data *= seen[Y_test.indices]
    Y_test.eliminate_zeros()
    some = np.flatnonzero(np.diff(Y_test.indptr))
    return {"X_train": X[:n_train], "Y_train": Y_train, "X_test": X[n_train:][some], "Y_test": Y_test[some]}
