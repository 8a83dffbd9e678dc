"""XR-Linear (PECOS, JMLR 2022): a balanced tree of linear rankers, walked by beam search.

Features: tf-idf. Labels: PIFA (or text, or both). Tree: balanced B-ary. Shortlist: descend, trained on teacher-forced
negatives (texts of the parent) or matcher-aware ones (texts whose beam has the parent). Rank: linear per level. Key
idea: the score along the path, the product of every level's transformed margin.

Deviations: none in method; the solver handles sixteen labels at a time and stops by LIBLINEAR's rule on the same
objective, so weights differ from PECOS' within its loose tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass

from treetop.assemble.label_tree import Description, describe_labels
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
    """Settings of `xr_linear`."""

    tfidf: TfidfConfig = setting(TfidfConfig(ngrams=(1, 2), min_df=2), "tf-idf features")
    label_features: Description = setting("pifa", "label representation the tree is built from")
    normalise_targets: bool = setting(True, "PIFA: weight each text's labels to sum to 1")
    tree: BalancedConfig = setting(BalancedConfig(), "label tree")
    linear: LinearConfig = setting(LinearConfig(), "linear classifier of each node")
    trees: int = setting(1, "ensemble size: trees with different seeds", low=1)
    blend: Blend = setting("average", "how scores of the trees are combined")


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """From the shape of the data."""
    return forecast_trees(dataset, config.tfidf, config.linear, config.trees)


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Describe labels, group them, train level by level."""

    def tree(view: SparseView, seed: int) -> LabelTree:
        Z = describe_labels(dataset, view, config.label_features, normalise_targets=config.normalise_targets)
        return balanced(Z, config.tree, seed=seed)

    return fit_trees(dataset, config, job, tree)
