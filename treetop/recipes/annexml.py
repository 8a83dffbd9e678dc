"""AnnexML (KDD 2017): texts embedded so that texts with like labels are near; the nearest training texts vote.

Features: tf-idf. Several learners, each: clusters of texts that keep neighbours by labels together (a linear classifier
of the text), in each cluster a linear map learned by a ranking loss over cosines, and a graph of its texts in which the
nearest ones are found by walking. Rank: labels of the texts found, weighted by cosine, over all learners. Key idea:
partition and embed by the nearest-neighbour graph of label vectors, so that no label needs a classifier of its own.

Deviations: clusters are balanced halves (2 ** n of them) of texts averaged with neighbours, which a softmax classifier
of the text learns; the search graph is built by insertion with exact neighbours; maps and vectors are stored in half
precision. Settings were chosen on held-out rows (`benchmarks/results/annexml-choice.jsonl`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treetop.assemble.annex import learn
from treetop.assemble.view import expected_terms, sparse_view
from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.forecast import COMPILED, Forecast, data_memory
from treetop.core.types import Level
from treetop.core.work import Job
from treetop.features.tfidf.tfidf import TfidfConfig
from treetop.kernels.annex.embedding import Learning
from treetop.kernels.annex.search import Search
from treetop.model import Model
from treetop.rank.embedded import MOST, Embedded, read_learner
from treetop.shortlist.everything import Everything

GROUP = "embeddings"
REFITS = True  # trained on all documents again, once scores are calibrated on held-out ones
TUNES = {  # settings that `treetop tune` tries
    "epochs": [5, 10, 20],
    "scale": [5.0, 10.0, 20.0],
    "k": [5, 10, 20],
    "power": [1.0, 3.0],
    "tfidf.ngrams": [[1, 1], [1, 2]],
}


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of `annexml`."""

    learners: int = setting(15, "independent learners, whose votes are added", low=1, high=99)
    cluster_size: int = setting(6000, "texts of a cluster at most; clusters are halved until they are no larger", low=1)
    neighbours: int = setting(10, "neighbours by labels of each text, which clusters and maps keep", low=1)
    width: int = setting(50, "dimension of the embedding", low=1)
    epochs: int = setting(10, "passes over the texts of a cluster to learn its map", low=1)
    negatives: int = setting(10, "random texts that a neighbour is compared with in a step", low=1)
    scale: float = setting(10.0, "scale (inverse temperature) of the cosine in the loss", low=0.0)
    rate: float = setting(0.1, "learning rate (AdaGrad) of the maps", low=0.0)
    cluster_epochs: int = setting(5, "passes over the texts to learn the clusters", low=1)
    degree: int = setting(
        10, "links of a text to those before it in the search graph; about twice as many in all", low=1
    )
    epsilon: float = setting(0.1, "search goes on up to 1 + epsilon times the distance of the k-th text found", low=0.0)
    k: int = setting(10, "nearest training texts of each learner that vote", low=1, high=MOST)
    power: float = setting(1.0, "vote weight: cosine to this power", low=0.0)
    tfidf: TfidfConfig = setting(TfidfConfig(min_df=2), "tf-idf features")

    @property
    def learning(self) -> Learning:
        """How maps are learned."""
        return Learning(self.width, self.epochs, self.negatives, self.scale, self.rate)


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """Vectors and links of each learner's texts, maps of each cluster's terms."""
    nnz, vocabulary = expected_terms(dataset, config.tfidf)
    n, targets = float(len(dataset)), float(dataset.Y.nnz)
    clusters = max(1.0, np.ceil(n / config.cluster_size))
    rows = min(nnz, clusters * 12.0 * min(n, config.cluster_size) ** 0.75)
    learner = n * (2.0 * config.width + 8.0 * config.degree + 12.0) + rows * (2.0 * config.width + 4.0)
    names = len(dataset.labels.names.blob) + len(dataset.labels.texts.blob)
    model = config.learners * learner + 8.0 * targets + vocabulary + 2 * names
    steps = n * config.epochs * (config.negatives + 2.0)
    seconds = 5.0 + config.learners * (
        steps * nnz / max(n, 1.0) * config.width * 1.5e-9 + n * config.cluster_size * 1e-9
    )
    return Forecast(COMPILED + data_memory(dataset) + 30.0 * nnz + 3.2 * model, model, seconds)


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Train every learner on all documents."""
    features, view, X = sparse_view(dataset, config.tfidf, job)
    X, Y = X[dataset.documents], dataset.Y[dataset.documents]
    Y.eliminate_zeros()
    n = X.shape[0]
    parts = learn(
        X, Y, learners=config.learners, cluster_size=config.cluster_size, neighbours=config.neighbours,
        degree=config.degree, cluster_epochs=config.cluster_epochs, learning=config.learning, job=job,
    )  # fmt: skip
    learners = [read_learner(part, X.shape[1], n) for part in parts]
    targets = Y.indptr.astype(np.int64), Y.indices.astype(np.int32), Y.data
    search = Search(min(config.k, n), config.epsilon)
    rank = Embedded(
        learners, targets, n=dataset.n_labels, n_features=X.shape[1], search=search, power=config.power
    )  # fmt: skip
    return Model.over(dataset, features, [[Level(view, Everything(dataset.n_labels), rank)]])
