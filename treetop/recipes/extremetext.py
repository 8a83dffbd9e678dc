"""Probabilistic label tree (PLT, as in extremeText and napkinXC): logistic nodes whose product is a probability.

Features: tf-idf. Labels: PIFA. Tree: balanced binary, leaves of 100 labels. Shortlist: descend, teacher-forced
negatives. Rank: logistic regression per node. Key idea: every node estimates P(some label below | parent, text), so the
product along the path estimates P(label | text).

Deviations: the original learns dense word vectors jointly with the tree; this is the tf-idf variant, which napkinXC
showed to be stronger.
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
    """Settings of `extremetext`."""

    tfidf: TfidfConfig = setting(TfidfConfig(ngrams=(1, 2), min_df=2), "tf-idf features")
    tree: BalancedConfig = setting(BalancedConfig(branching=2, stop_when="gain"), "label tree")
    linear: LinearConfig = setting(
        LinearConfig(loss="logistic", cost_positive=10.0, cost_negative=10.0, transform="sigmoid", beam=20),
        "linear classifier of each node",
    )
    trees: int = setting(1, "ensemble size: trees with different seeds", low=1)
    blend: Blend = setting("average", "how scores of the trees are combined")


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """From the shape of the data."""
    return forecast_trees(dataset, config.tfidf, config.linear, config.trees)


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """One tree of logistic nodes."""

    def tree(view: SparseView, seed: int) -> LabelTree:
        Z = describe_labels(dataset, view, "pifa", normalise_targets=False)
        return balanced(Z, config.tree, seed=seed)

    return fit_trees(dataset, config, job, tree)
