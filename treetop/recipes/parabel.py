"""Parabel (WWW 2018): three balanced binary trees of linear rankers, averaged.

Features: tf-idf. Labels: PIFA from raw targets. Tree: balanced binary, leaves of 100 labels. Shortlist: descend,
teacher-forced negatives. Rank: linear per level. Key idea: the balanced label tree itself, which makes training and
prediction cost log L instead of L.

Deviations: 2-means iterates until assignments are stable, which on held-out training texts beats stopping at a small
gain; scores along the path are products of exp(-max(0, 1 - margin)^2), as in omikuji.
"""

from __future__ import annotations

from dataclasses import dataclass

from treetop.assemble.label_tree import describe_labels
from treetop.assemble.linear.ensemble import fit_trees, forecast_trees
from treetop.assemble.linear.tree import LinearConfig
from treetop.assemble.view import SparseView
from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.forecast import Forecast
from treetop.core.types import LabelTree
from treetop.core.work import Job
from treetop.features.tfidf.tfidf import TfidfConfig
from treetop.model import Model
from treetop.partition.balanced import BalancedConfig, balanced
from treetop.predict.blend import Blend

GROUP = "linear, trees"
EXPLAINS = True  # `treetop explain --text` shows the words behind a label
HOOKS = ("rows",)  # places for augmentations: linear functions know no soft targets


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of `parabel`."""

    tfidf: TfidfConfig = setting(TfidfConfig(ngrams=(1, 2), min_df=2), "tf-idf features")
    tree: BalancedConfig = setting(BalancedConfig(branching=2), "label tree")
    linear: LinearConfig = setting(LinearConfig(transform="hinge2"), "linear classifier of each node")
    trees: int = setting(3, "ensemble size: trees with different seeds", low=1)
    blend: Blend = setting("average", "how scores of the trees are combined")


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """From the shape of the data."""
    return forecast_trees(dataset, config.tfidf, config.linear, config.trees)


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Three trees, level by level."""

    def tree(view: SparseView, seed: int) -> LabelTree:
        Z = describe_labels(dataset, view, "pifa", normalise_targets=False)
        return balanced(Z, config.tree, seed=seed)

    return fit_trees(dataset, config, job, tree)
