"""Probabilistic label tree (PLT, as in extremeText and napkinXC): logistic nodes whose product is a probability.

Features: tf-idf. Labels: PIFA. Tree: balanced binary, leaves of 100 labels. Shortlist: descend, teacher-forced
negatives. Rank: logistic regression per node. Key idea: every node estimates P(some label below | parent, text), so the
product along the path estimates P(label | text).

Deviations: the original learns dense word vectors jointly with the tree; this is the tf-idf variant, which napkinXC
showed to be stronger.
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
    "linear.cost_positive": [3.0, 10.0, 30.0],
    "linear.threshold": [0.02, 0.05, 0.1],
    "tfidf.ngrams": [[1, 1], [1, 2], [1, 3]],
    "tfidf.char_ngrams": ["auto", None, [2, 4]],
    "tree.max_leaf": [30, 100, 300],
}
forecast = forecast_trees


@dataclass(frozen=True, kw_only=True)
class Config(TreesConfig):
    """Settings of `extremetext`."""

    tree: BalancedConfig = setting(BalancedConfig(branching=2, stop_when="gain"), "label tree")
    linear: LinearConfig = setting(
        LinearConfig(loss="logistic", cost_positive=10.0, cost_negative=10.0, transform="sigmoid", beam=20),
        "linear classifier of each node",
    )


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """One tree of logistic nodes."""
    return fit_trees(dataset, config, job, config.tree)
