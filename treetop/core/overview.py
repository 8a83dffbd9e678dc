"""The main settings of a recipe: `treetop recipes NAME` and the recipe pages show these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

Row = TypeVar("Row", bound=Sequence[Any])

MOST = 14
MAIN = (
    "trees", "members", "blend", "k", "power", "label_features", "encoder.model", "encoder.max_length", "frozen",
    "train.epochs", "train.batch_size", "encoder_optimizer.lr", "head_optimizer.lr", "label_optimizer.lr",
    "second_train.epochs", "surrogate_clusters", "shortlist", "clusters", "resolutions", "tree.max_leaf",
    "tree.branching", "tree.max_depth", "beam", "init", "label_memory", "label_rows", "negatives", "ranker", "score",
    "combine", "phases", "fusion_weight", "refined_tree.max_leaf", "ranker.beam", "ranker.threshold", "dual.loss.kind",
    "classifier.labels", "classifier.label_memory", "pool.size", "pool.hard_negatives", "search.index",
    "search.logit_adjustment", "linear.beam", "linear.negatives", "linear.cost", "linear.threshold",
    "linear.propensity_weighting", "linear.storage", "tfidf.ngrams", "tfidf.min_df", "validation",
)  # fmt: skip


def main_rows(rows: Sequence[Row]) -> list[Row]:
    """The rows of the main settings (rows start with the setting's name); all if there are few."""
    if len(rows) <= MOST:
        return list(rows)
    known = sorted((row for row in rows if row[0] in MAIN), key=lambda row: MAIN.index(row[0]))
    plain = [row for row in rows if "." not in row[0]]  # of a recipe from another package
    return (known or plain or list(rows))[:MOST]
