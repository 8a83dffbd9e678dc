"""Parabel (WWW 2018): three balanced binary trees of linear rankers, averaged.

Features: tf-idf. Labels: PIFA from raw targets. Tree: balanced binary, leaves of 100 labels. Shortlist: descend,
teacher-forced negatives. Rank: linear per level. Key idea: the balanced label tree itself, which makes training and
prediction cost log L instead of L.

Deviations: 2-means iterates until assignments are stable, which on held-out training texts beats stopping at a small
gain; scores along the path are products of exp(-max(0, 1 - margin)^2), as in omikuji.
"""

from __future__ import annotations

from dataclasses import dataclass

from treetop.assemble.linear.ensemble import TreesConfig, fit_trees, forecast_trees
from treetop.assemble.linear.tree import LinearConfig
from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.work import Job
from treetop.model import Model
from treetop.partition.balanced import BalancedConfig

GROUP = "linear, trees"
REFITS = True  # quick enough to train on all documents again, once scores are calibrated on held-out ones
CLUSTER = True  # the nodes of a cluster share clusters and labels
HOOKS = ("rows",)  # places for augmentations: linear functions know no soft targets
TUNES = {  # settings that `treetop tune` tries
    "linear.cost_positive": [0.5, 1.0, 3.0, 10.0],
    "linear.threshold": [0.02, 0.05, 0.1],
    "tfidf.ngrams": [[1, 1], [1, 2], [1, 3]],
    "tfidf.char_ngrams": ["auto", None, [2, 4]],
    "trees": [1, 3, 5],
}
forecast = forecast_trees


@dataclass(frozen=True, kw_only=True)
class Config(TreesConfig):
    """Settings of `parabel`."""

    tree: BalancedConfig = setting(BalancedConfig(branching=2), "label tree")
    linear: LinearConfig = setting(LinearConfig(transform="hinge2"), "linear classifier of each node")
    trees: int = setting(3, "ensemble size: trees with different seeds", low=1)


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Three trees, level by level."""
    return fit_trees(dataset, config, job, config.tree)
