"""Label texts as additional training rows, each with its own label.

For a label with three training texts, its own text is a fourth that certainly has the label. Whether label texts are
informative about the documents (names are, codes are not) is judged by the words that both share.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from scipy import sparse

from treetop.core.dataset import DOCUMENT, LABEL_TEXT, Csr, Dataset, Ints
from treetop.core.log import logger
from treetop.core.texts import Texts
from treetop.features.tfidf.tfidf import Tfidf
from treetop.labels.text import label_words, plain

ExcludedLabels = dict[str, set[int]]
LabelRows = Literal["auto", "always", "never"]
SAMPLE = 5000  # documents to compare with label texts
LEAST = 0.02  # informative: this share of (document, label) pairs have a word in common,
TIMES = 3.0  # and so many times more of them than of random pairs


def with_label_rows(dataset: Dataset, X: Csr, tfidf: Tfidf, how: LabelRows, *, seed: int) -> tuple[Dataset, Csr]:
    """The data set and its tf-idf with a row for every label that has a text, if requested or informative."""
    if how == "never":
        return dataset, X
    texts = label_words(dataset.labels)
    words = tfidf.transform(texts)
    if how == "auto" and not are_informative(X, words, dataset, seed):
        logger.info("label texts are not informative about the documents: they are not added as training rows")
        return dataset, X
    excluded = excluded_labels(dataset)
    labels = not_excluded(dataset, np.flatnonzero(np.diff(texts.offsets) > 0), excluded, "label_rows")
    logger.info("%s label texts are added as training rows", f"{len(labels):,}")
    return with_rows_of(dataset, labels, excluded), sparse.vstack([X, words[labels]], format="csr")


def excluded_labels(dataset: Dataset) -> ExcludedLabels:
    """Text of a document -> the labels excluded for it."""
    by_text: ExcludedLabels = {}
    for row, column in [] if dataset.filter_pairs is None else dataset.filter_pairs.tolist():
        by_text.setdefault(plain(dataset.texts[row]), set()).add(column)
    return by_text


def not_excluded(dataset: Dataset, labels: Ints, excluded: ExcludedLabels, name: str) -> Ints:
    """The labels whose text may become a row: not those that the filter excludes for a document with the same text."""
    if not excluded:
        return labels
    texts = label_words(dataset.labels).take(labels)
    pairs = zip(labels.tolist(), texts, strict=True)
    kept = np.array([label not in excluded.get(plain(text), ()) for label, text in pairs], bool)
    if not kept.all():
        logger.info("%s: no row for labels that the filter excludes for their own text: %s", name, f"{np.sum(~kept):,}")
    return labels[kept]


def with_rows_of(dataset: Dataset, labels: Ints, excluded: ExcludedLabels) -> Dataset:
    """The data set with the texts of these labels as rows after the documents, each with its own label."""
    n, ones = len(labels), np.ones(len(labels), np.float32)
    targets = sparse.csr_matrix((ones, labels, np.arange(n + 1)), (n, dataset.n_labels))
    return with_texts_of(dataset, labels, targets, excluded)


def with_texts_of(dataset: Dataset, labels: Ints, targets: Csr, excluded: ExcludedLabels) -> Dataset:
    """The same with given targets; labels excluded for a document are also excluded for a label text equal to it."""
    texts = label_words(dataset.labels).take(labels)
    rows = enumerate(texts if excluded else ())
    pairs = [(row, column) for row, text in rows for column in sorted(excluded.get(plain(text), ()))]
    ones = sparse.csr_matrix((np.ones_like(targets.data), targets.indices, targets.indptr), targets.shape)
    rows_added = Dataset(
        texts, targets, dataset.labels, relevance=ones, filter_pairs=np.array(pairs, np.int64).reshape(-1, 2)
    )
    return with_rows(dataset, rows_added, LABEL_TEXT)


def with_rows(dataset: Dataset, rows: Dataset, role: int) -> Dataset:
    """The data set followed by rows of another role; all of these are trained on."""
    n, weights, pairs = len(rows), dataset.relevance, dataset.filter_pairs
    roles = np.full(len(dataset), DOCUMENT, np.uint8) if dataset.roles is None else dataset.roles
    if weights is not None:
        weights = sparse.vstack([weights, rows.relevance], format="csr")
    if pairs is not None and rows.filter_pairs is not None:
        pairs = np.concatenate([pairs, rows.filter_pairs + np.array([len(dataset), 0])])
    return replace(
        dataset,
        texts=Texts.concat([dataset.texts, rows.texts]),
        Y=sparse.vstack([dataset.Y, rows.Y], format="csr"),
        ids=None,
        roles=np.concatenate([roles, np.full(n, role, np.uint8)]),
        features={},
        relevance=weights,
        filter_pairs=pairs,
        sample=None if dataset.sample is None else np.concatenate([dataset.sample, np.ones(n, bool)]),
    )


def are_informative(X: Csr, words: Csr, dataset: Dataset, seed: int) -> bool:
    """Whether documents share words with the texts of their own labels more often than with random label texts."""
    rng = np.random.default_rng([seed, 5])
    rows = rng.permutation(np.flatnonzero(dataset.documents))[:SAMPLE]
    Y = dataset.Y[rows]
    documents = np.repeat(rows, np.diff(Y.indptr))
    if len(documents) == 0:
        return False
    random = rng.integers(0, dataset.n_labels, len(documents))
    true, chance = (
        int((np.asarray(X[documents].multiply(words[labels]).sum(1)).ravel() > 0).sum())
        for labels in (Y.indices, random)
    )
    return true >= LEAST * len(documents) and true >= TIMES * chance
