"""PfastreXML (KDD 2016): trees over documents that rank rare labels well, and a re-ranker by label centroids.

Features: tf-idf. Tree: over documents, not labels; a node sends a text left or right by the sign of a sparse linear
separator, learned so that one ranking of labels serves each side (nDCG, FastXML, KDD 2014). Rank: labels of the
documents in the leaves a text reaches, averaged over all trees, then joined with the distance to each label's centroid.
Key idea: gains of 1 / propensity, in the splits and in the leaves, so that rare labels count for what they are worth.
Preset `fastxml` is FastXML: gains of 1, no centroids.

Deviations: leaves keep their documents, whose mean label vector is formed when a text arrives, instead of its 100 best
labels: the model is smaller, and an explanation can name the training texts behind a label. `tree.cost` is 3 instead of
1, as texts are scaled to length 1 here, so that nodes of a few dozen texts find no separator at 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from treetop.assemble.forest import TreeConfig, centroids_of, grow_trees, label_gains
from treetop.assemble.view import expected_terms, sparse_view
from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.forecast import COMPILED, Forecast, data_memory
from treetop.core.types import Join, Level
from treetop.core.work import Job
from treetop.features.tfidf.tfidf import TfidfConfig
from treetop.kernels.forest.walk import Targets
from treetop.model import Model
from treetop.rank.forest import NO_CENTROIDS, SHARPEST, Forest
from treetop.shortlist.everything import Everything

GROUP = "linear, trees"
REFITS = True  # no gradient steps: training on all documents again, once scores are calibrated, is worth its time
TUNES = {  # settings that `treetop tune` tries
    "tree.cost": [1.0, 3.0, 10.0],
    "alpha": [0.7, 0.8, 0.9, 1.0],
    "gamma": [10.0, 30.0],
    "trees": [20, 50],
    "tfidf.ngrams": [[1, 1], [1, 2]],
}


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of `pfastrexml`."""

    trees: int = setting(50, "ensemble size: trees with different seeds", low=1)
    gain: Literal["propensity", "ones"] = setting(
        "propensity", "what a label earns: 1 / its propensity, or 1 (FastXML)"
    )
    alpha: float = setting(0.8, "weight of the trees beside the centroids; 1: trees alone", low=0.0, high=1.0)
    gamma: float = setting(30.0, "sharpness of the centroids' scores", low=0.0, high=SHARPEST)
    tree: TreeConfig = setting(TreeConfig(), "trees over documents")
    tfidf: TfidfConfig = setting(TfidfConfig(), "tf-idf features")


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """Trees: documents and weights of each; centroids: at most the terms of all texts of all labels."""
    nnz, vocabulary = expected_terms(dataset, config.tfidf)
    n, targets = float(len(dataset)), float(dataset.Y.nnz)
    names = len(dataset.labels.names.blob) + len(dataset.labels.texts.blob)
    trees = config.trees * (5.0 * n + 8.0 * min(4.0 * n, nnz))
    centroids = 6.0 * nnz / max(n, 1.0) * targets if config.alpha < 1 else 0.0
    model = trees + centroids + 8.0 * targets + vocabulary + 2 * names
    depth = max(1.0, math.log2(max(2.0, n / config.tree.max_leaf)))
    seconds = 3.0 + config.trees * depth * (1.6e-7 * targets + 1.0e-7 * nnz)
    return Forecast(COMPILED + data_memory(dataset) + 30.0 * nnz + 2.2 * model, model, seconds)


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Grow the trees, then average each label's texts."""
    features, view, X = sparse_view(dataset, config.tfidf, job)
    X, Y = X[dataset.documents], dataset.Y[dataset.documents]
    Y.eliminate_zeros()
    gain = label_gains(dataset, config.gain)
    trees = grow_trees(X, Y, gain, config.tree, config.trees, job)
    centroids = centroids_of(X, Y, config.alpha, config.gamma) if config.alpha < 1 else NO_CENTROIDS
    targets = Targets(Y.indptr.astype(np.int64), Y.indices.astype(np.int32), Y.data, gain)
    rank = Forest(trees, targets, centroids, X.shape[1])
    return Model.over(dataset, features, [[Level(view, Everything(dataset.n_labels), rank, Join("sigmoid"))]])
