"""XR-Linear (PECOS, JMLR 2022): a balanced tree of linear rankers, walked by beam search.

Features: tf-idf. Labels: PIFA (or text, or both). Tree: balanced B-ary. Shortlist: descend, trained on teacher-forced
negatives (texts of the parent) or matcher-aware ones (texts whose beam has the parent). Rank: linear per level. Key
idea: the score along the path, the product of every level's transformed margin.

Deviations: none in method; the solver handles sixteen labels at a time and stops by LIBLINEAR's rule on the same
objective, so weights differ from PECOS' within its loose tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from treetop.assemble.label_tree import Description
from treetop.assemble.linear.ensemble import TreesConfig, fit_trees, forecast_trees
from treetop.core import registry
from treetop.core.config import Registered, setting
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
    "tree.max_leaf": [30, 100, 300],
    "linear.negatives": ["tfn", "tfn+man"],
}
forecast = forecast_trees


@dataclass(frozen=True, kw_only=True)
class Config(TreesConfig):
    """Settings of `xr_linear`."""

    label_features: Description = setting("pifa", "label representation the tree is built from")
    normalise_targets: bool = setting(True, "PIFA: weight each text's labels to sum to 1")
    partition: Annotated[str, Registered("partition")] = setting(
        "balanced", "how labels are grouped into a tree; others than balanced have their own settings at default"
    )
    tree: BalancedConfig = setting(BalancedConfig(), "balanced label tree")


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Describe labels, group them, train level by level."""
    partition = config.tree if config.partition == "balanced" else registry.find("partition", config.partition)()
    return fit_trees(
        dataset, config, job, partition, labels=config.label_features, normalise_targets=config.normalise_targets
    )
