"""The sparse view a recipe trains on: tf-idf of the texts, or the data set's precomputed features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from treetop.assemble.char_ngrams import GIVEN, settled
from treetop.core.dataset import Csr, Dataset
from treetop.core.log import logger
from treetop.core.store import Part
from treetop.core.types import Features
from treetop.core.work import Job
from treetop.data.scripts import Writing, writing
from treetop.features.tfidf.tfidf import Tfidf, TfidfConfig
from treetop.kernels.sparse import sound_csr
from treetop.kernels.text import survey

SAMPLE, SAMPLE_BYTES = 20_000, 1 << 20  # documents and bytes whose scripts are counted


class SparseView(NamedTuple):
    """Features to store in the model, the name of the view and its matrix over all rows."""

    features: Mapping[str, Features]
    name: str
    X: Csr


def sparse_view(dataset: Dataset, config: TfidfConfig, job: Job) -> SparseView:
    """Precomputed features when the data set has them, else tf-idf fitted on its documents; one resumable stage."""
    if GIVEN in dataset.features:
        logger.info("using the %d precomputed features of %s", dataset.features[GIVEN].shape[1], dataset.name)
        return SparseView({}, GIVEN, dataset.features[GIVEN])
    config = settled(config, dataset, say=True)
    found = writing(dataset.texts.take(_sample(dataset)))
    _warn_of_clauses(dataset.name, found.unspaced, config)
    part = job.stage("tfidf", lambda: _fit(dataset, config))
    tfidf: Tfidf = Tfidf.from_part(part.parts["features"])
    X = sound_csr(part.arrays["indptr"], part.arrays["indices"], part.arrays["data"], part.config["shape"][1])
    _report(dataset, found, X)
    return SparseView({"tfidf": tfidf}, "tfidf", X)


def _sample(dataset: Dataset) -> NDArray[np.int64]:
    """Documents spread over the data."""
    rows = dataset.documents.nonzero()[0]
    return rows[:: max(1, len(rows) // SAMPLE)]


def _report(dataset: Dataset, found: Writing, X: Csr) -> None:
    """Log the scripts of the documents and how many have hardly a feature, where that is worth a line."""
    terms = np.diff(X.indptr)[dataset.documents]
    none, one = int((terms == 0).sum()), int((terms == 1).sum())
    for sentence in replace(found, texts=len(terms), without_terms=none, with_one_term=one).sentences():
        logger.info("%s: %s", dataset.name, sentence)


def _warn_of_clauses(name: str, unspaced: float, config: TfidfConfig) -> None:
    """Say before training where settings make words of whole clauses, as there may be no word twice."""
    if unspaced >= 0.05 and config.char_ngrams is None and config.cutters()["words"].unspaced is None:
        logger.warning(
            "%s: %.0f %% of the letters are of scripts without spaces between words, where whole clauses become words "
            "with these settings. Set tfidf.tokenizer=unicode and tfidf.unspaced=[1, 2].",
            name,
            100 * unspaced,
        )


def expected_terms(dataset: Dataset, config: TfidfConfig) -> tuple[float, float]:
    """(non-zeros of the view, bytes of the vocabulary) for forecasts: exact if precomputed, else from text length."""
    if GIVEN in dataset.features:
        return float(dataset.features[GIVEN].nnz), 0.0
    config = settled(config, dataset)
    low, high = config.ngrams or (1, 5)
    size = len(dataset.texts.blob)
    sample = np.ascontiguousarray(dataset.texts.blob[:SAMPLE_BYTES])
    share = 3.0 * survey.unspaced_letters(sample) / max(1, len(sample))  # such characters have three bytes
    unspaced = min(1.0, share) * size
    shortest, longest = config.unspaced or (1, 1)
    grams = (size - unspaced) / 6.5 * (1 + high - low) + unspaced / 3 * (1 + longest - shortest)
    if config.ngrams is not None and isinstance(config.char_ngrams, tuple):
        grams += 0.8 * size * (1 + config.char_ngrams[1] - config.char_ngrams[0])  # one of each length at each letter
    return grams * (0.75 if config.min_df > 1 else 1.0), 6.0 * grams


def _fit(dataset: Dataset, config: TfidfConfig) -> Part:
    documents = dataset.documents
    if documents.all():
        tfidf, X = Tfidf.fit_transform(dataset.texts, config)
    else:  # vocabulary and idf come from documents alone, not from label texts and synthetic rows
        tfidf = Tfidf.fit(dataset.texts.take(documents.nonzero()[0]), config)
        X = tfidf.views(dataset.texts)["tfidf"]
    arrays = {"indptr": X.indptr, "indices": X.indices, "data": X.data}
    return Part("stage.tfidf.1", {"shape": list(X.shape)}, arrays, {"features": tfidf.to_part()})
