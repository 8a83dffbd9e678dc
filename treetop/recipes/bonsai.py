"""Bonsai (Machine Learning 2020): wide, shallow k-means trees of linear rankers, averaged.

Features: tf-idf. Labels: PIFA. Tree: k-means with 100 clusters of any size, two or three levels. Shortlist: descend,
teacher-forced negatives. Rank: linear per level. Key idea: no balance constraint. Clusters of unequal size keep tail
labels apart from head labels, and a shallow tree propagates fewer errors.
"""

from __future__ import annotations

from dataclasses import dataclass

from treetop.assemble.linear.ensemble import TreesConfig, fit_trees, forecast_trees
from treetop.assemble.linear.tree import LinearConfig
from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.work import Job
from treetop.model import Model
from treetop.partition.kmeans import KmeansConfig

GROUP = "linear, trees"
REFITS = True  # quick enough to be trained again on all documents after calibration on held-out ones
CLUSTER = True  # the nodes of a cluster share clusters and labels
HOOKS = ("rows",)  # hooks for augmentations; linear classifiers take no soft targets
TUNES = {  # settings that `treetop tune` tries
    "linear.cost_positive": [0.5, 1.0, 3.0, 10.0],
    "linear.threshold": [0.02, 0.05, 0.1],
    "tfidf.ngrams": [[1, 1], [1, 2], [1, 3]],
    "tfidf.char_ngrams": ["auto", None, [2, 4]],
    "tree.branching": [32, 100, 200],
}
forecast = forecast_trees


@dataclass(frozen=True, kw_only=True)
class Config(TreesConfig):
    """Settings of `bonsai`."""

    tree: KmeansConfig = setting(KmeansConfig(), "label tree")
    linear: LinearConfig = setting(LinearConfig(transform="hinge2"), "linear classifier of each node")
    trees: int = setting(3, "ensemble size: trees with different seeds", low=1)


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Train wide trees level by level."""
    return fit_trees(dataset, config, job, config.tree)
