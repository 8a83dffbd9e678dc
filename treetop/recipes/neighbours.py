"""Labels of the nearest training texts by tf-idf, exact.

Features tf-idf, tree flat, shortlist everything, rank neighbours: the k most similar training texts vote for their
labels with weight similarity ** power. Nothing is trained, so it is an honest baseline: what plain retrieval reaches.
Word unigrams, k = 100 and power 3 were chosen on a split of train (`benchmarks/results/neighbours-choice.json`).
"""

from __future__ import annotations

from dataclasses import dataclass

from treetop.assemble.char_ngrams import settled
from treetop.assemble.view import sparse_view
from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.forecast import COMPILED, Forecast, data_memory
from treetop.core.types import Level
from treetop.core.work import Job
from treetop.features.tfidf.tfidf import AUTO, TfidfConfig
from treetop.model import Model
from treetop.rank.neighbours import Neighbours
from treetop.shortlist.everything import Everything

GROUP = "baselines"
REFITS = True  # quick enough to train on all documents again, once scores are calibrated on held-out ones
TUNES = {  # settings that `treetop tune` tries
    "k": [30, 100, 300],
    "power": [1.0, 2.0, 3.0, 5.0],
    "tfidf.ngrams": [[1, 1], [1, 2], [1, 3]],
    "tfidf.char_ngrams": ["auto", None, [2, 4]],
}


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of `neighbours`."""

    k: int = setting(100, "nearest training texts that vote", low=1)
    power: float = setting(3.0, "vote weight: similarity to this power", low=0.0)
    tfidf: TfidfConfig = setting(TfidfConfig(char_ngrams=AUTO), "tf-idf features")


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """The data, and some copies of the index while it is made: 38 bytes for a word of a text."""
    tfidf = settled(config.tfidf, dataset)
    low, high = tfidf.ngrams or (1, 5)
    words = len(dataset.texts.blob) / 6.0 * (1 + high - low)
    if tfidf.ngrams is not None and isinstance(tfidf.char_ngrams, tuple):
        words += 0.8 * len(dataset.texts.blob) * (1 + tfidf.char_ngrams[1] - tfidf.char_ngrams[0])
    names = len(dataset.labels.names.blob) + len(dataset.labels.texts.blob)
    model = 8.0 * words + 8.0 * dataset.Y.nnz + 2 * names
    memory = COMPILED + 0.8 * data_memory(dataset) + 38.0 * words
    return Forecast(memory=memory, model=model, time=1 + words / 2e6)


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Index the documents' tf-idf vectors by feature."""
    features, view, X = sparse_view(dataset, config.tfidf, job)
    documents = dataset.documents
    rank = Neighbours.fit(X[documents], dataset.Y[documents], k=config.k, power=config.power)
    return Model.over(dataset, features, [[Level(view, Everything(dataset.n_labels), rank)]])
