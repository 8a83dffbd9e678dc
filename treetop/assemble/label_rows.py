"""Label texts as further rows to learn from: each is a text that has just its own label.

A label seen three times has little to go by; its text is one more text that surely has it. Whether label texts say
anything about the documents (names do, codes do not) is seen from the words they share.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treetop.core.dataset import DOCUMENT, LABEL_TEXT, Csr, Dataset
from treetop.core.log import logger
from treetop.core.texts import Texts
from treetop.features.tfidf import Tfidf
from treetop.labels.text import label_words

LabelRows = Literal["auto", "always", "never"]
SAMPLE = 5000  # documents that are asked
LEAST, TIMES = 0.02, 3.0  # share of pairs whose texts share words, and how much rarer chance pairs must do so


def with_label_rows(dataset: Dataset, X: Csr, tfidf: Tfidf, how: LabelRows, *, seed: int) -> tuple[Dataset, Csr]:
    """The data set and its tf-idf with a row for every label that has a text, where asked for or worth it."""
    if how == "never":
        return dataset, X
    texts = label_words(dataset.labels)
    words = tfidf.transform(texts)
    if how == "auto" and not tells(X, words, dataset, seed):
        logger.info("label texts say nothing about the documents: no rows of their own")
        return dataset, X
    labels = np.flatnonzero(np.diff(texts.offsets) > 0)
    logger.info("%s label texts are rows to learn from", f"{len(labels):,}")
    return with_rows_of(dataset, labels), sparse.vstack([X, words[labels]], format="csr")


def with_rows_of(dataset: Dataset, labels: NDArray[np.integer]) -> Dataset:
    """The data set with the texts of these labels as rows behind the documents."""
    n, ones = len(labels), np.ones(len(labels), np.float32)
    own = sparse.csr_matrix((ones, labels, np.arange(n + 1)), (n, dataset.n_labels))
    return with_rows(dataset, label_words(dataset.labels).take(labels), own, LABEL_TEXT)


def with_rows(dataset: Dataset, texts: Texts, targets: Csr, role: int) -> Dataset:
    """The data set with these texts and their targets as rows of one role behind its own; all are learned from."""
    n, weights = len(texts), dataset.relevance
    roles = np.full(len(dataset), DOCUMENT, np.uint8) if dataset.roles is None else dataset.roles
    if weights is not None:
        ones = sparse.csr_matrix((np.ones_like(targets.data), targets.indices, targets.indptr), targets.shape)
        weights = sparse.vstack([weights, ones], format="csr")
    return replace(
        dataset,
        texts=Texts.concat([dataset.texts, texts]),
        Y=sparse.vstack([dataset.Y, targets], format="csr"),
        ids=None,
        roles=np.concatenate([roles, np.full(n, role, np.uint8)]),
        features={},
        relevance=weights,
        sample=None if dataset.sample is None else np.concatenate([dataset.sample, np.ones(n, bool)]),
    )


def tells(X: Csr, words: Csr, dataset: Dataset, seed: int) -> bool:
    """Whether documents share words with the texts of their own labels more often than with those of others."""
    rng = np.random.default_rng([seed, 5])
    rows = rng.permutation(np.flatnonzero(dataset.documents))[:SAMPLE]
    Y = dataset.Y[rows]
    which = np.repeat(rows, np.diff(Y.indptr))
    if len(which) == 0:
        return False
    others = rng.integers(0, dataset.n_labels, len(which))
    true, chance = (
        int((np.asarray(X[which].multiply(words[labels]).sum(1)).ravel() > 0).sum()) for labels in (Y.indices, others)
    )
    return true >= LEAST * len(which) and true >= TIMES * chance
