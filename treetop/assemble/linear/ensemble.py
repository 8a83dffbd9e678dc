"""An ensemble of linear trees on one view: what XR-Linear, Parabel, Bonsai and PLT have in common."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from treetop.assemble.label_tree import Description, describe_labels, tree_stage
from treetop.assemble.linear.budget import PLACE, WIDTHS, HoldOut, capped, fit_within
from treetop.assemble.linear.tree import LinearConfig, Task, train_member
from treetop.assemble.plan.imagined import Imagined
from treetop.assemble.probe import part_bytes
from treetop.assemble.view import SparseView, expected_terms, sparse_view
from treetop.core.config import setting
from treetop.core.dataset import Csr, Dataset
from treetop.core.forecast import Forecast
from treetop.core.label_part import labels_part
from treetop.core.log import logger
from treetop.core.types import LabelTree, Level, Partition
from treetop.core.work import Job
from treetop.data.split import holdout
from treetop.features.tfidf.tfidf import AUTO, TfidfConfig
from treetop.model import Model
from treetop.predict.blend import Blend

# Peak memory, fitted to trainings on data of seven shapes.
BASE = 2.0e8  # bytes of the interpreter and compiled kernels
PER_TERM = 18.0  # bytes per non-zero of all label descriptions
DUALS = 128.0  # bytes per text of the first level: dual and cost in sixteen lanes
COPIES = 2.1  # bytes per byte of the model, at the end of a level and when the model is written
MARGIN = 1.06  # factor for safety
SAMPLE = 20_000  # texts on which the cost of pruning is measured if all weights would need too much memory


@dataclass(frozen=True, kw_only=True)
class TreesConfig:
    """Settings that all recipes of linear trees share; each adds `tree`, its partition."""

    tfidf: TfidfConfig = setting(TfidfConfig(ngrams=(1, 2), min_df=2, char_ngrams=AUTO), "tf-idf features")
    linear: LinearConfig = setting(LinearConfig(), "linear classifier of each node")
    trees: int = setting(1, "ensemble size: trees with different seeds", low=1)
    blend: Blend = setting("average", "how scores of the trees are combined")


def fit_trees(
    dataset: Dataset,
    config: TreesConfig,
    job: Job,
    partition: Partition,
    *,
    labels: Description = "pifa",
    normalise_targets: bool = False,
) -> Model:
    """Train `config.trees` members on one view and one label description; they differ in the seed of their tree."""
    view, linear, blend = sparse_view(dataset, config.tfidf, job), config.linear, config.blend

    def grow(seed: int) -> LabelTree:
        return partition.grow(describe_labels(dataset, view, labels, normalise_targets=normalise_targets), seed=seed)

    grown = [tree_stage(job, f"tree-{m:02d}", partial(grow, job.seed + m)) for m in range(config.trees)]
    for m, tree in enumerate(grown):
        logger.info(
            "tree %d of %d: nodes per level %s", m + 1, config.trees, " → ".join(f"{size:,}" for size in tree.sizes)
        )

    def train(config: LinearConfig, stage: str, data: Dataset = dataset, X: Csr = view.X) -> list[list[Level]]:
        task = Task(X, data.Y, data.relevance, data.filter_pairs)
        return [
            train_member(task, tree, view.name, config, job=job, name=f"{stage}-{m:02d}")
            for m, tree in enumerate(grown)
        ]

    fixed = part_bytes(labels_part(dataset.labels, dataset.label_counts))
    fixed += sum(part_bytes(features.to_part()) for features in view.features.values()) + 50_000
    if "weights" in job.budget:
        holdout = _measured_on(dataset, view, train, blend, job.seed, SAMPLE)
        functions = sum(sum(tree.sizes) for tree in grown)
        linear = capped(linear, holdout, limit=job.budget["weights"] - fixed, functions=functions)
    if "model" not in job.budget:
        return Model.over(dataset, view.features, train(linear, "member"), blend)
    holdout = _measured_on(dataset, view, train, blend, job.seed, len(dataset))
    return Model.over(
        dataset, view.features, fit_within(train, linear, holdout, limit=job.budget["model"], fixed=fixed), blend
    )


def _measured_on(dataset: Dataset, view: SparseView, train: Any, blend: Blend, seed: int, most: int) -> HoldOut:
    """A part of a sample of at most `most` texts, held out to measure the cost of pruning.

    A tenth, but no more than 2,000 and no fewer than about 1,000, or half of the texts where there are too few.
    """
    rows = np.sort(np.random.default_rng(seed).permutation(len(dataset))[:most])
    share = max(min(0.1, 2000 / max(len(rows), 1)), min(0.5, 1100 / max(len(rows), 1)))
    kept, out = holdout(dataset.take(rows), share, seed)
    part, X = dataset.take(rows[kept]), view.X[rows[kept]]
    return HoldOut(
        lambda config, stage: train(config, stage, part, X),
        {view.name: view.X[rows[out]]},
        dataset.take(rows[out]),
        blend,
    )


def forecast_trees(dataset: Dataset, config: TreesConfig) -> Forecast:
    """Memory, model size and time of `fit_trees`, from the shape of the data."""
    linear, trees = config.linear, config.trees
    nnz, vocabulary = expected_terms(dataset, config.tfidf)
    entries = min(nnz / max(len(dataset), 1) * dataset.Y.nnz * 1.25, dataset.n_labels * 3000.0)  # weights after pruning
    names = part_bytes(labels_part(dataset.labels, dataset.label_counts))
    model = trees * entries * (WIDTHS[linear.storage] + PLACE) + names + vocabulary
    inputs = BASE + 8.5 * nnz + 24.0 * dataset.Y.nnz + 5.0 * names
    if vocabulary:  # hash tables of terms, and the texts themselves
        inputs += min(6e7, 8.0 * len(dataset.texts.blob)) + 1.5 * len(dataset.texts.blob)
    seconds = 3.0 + trees * nnz / max(len(dataset), 1) * dataset.Y.nnz * 5e-7 * (4 if "man" in linear.negatives else 1)
    described = _description_size(dataset, nnz)
    floor = MARGIN * (inputs + PER_TERM * described)
    shared = max(8.0 * nnz + 16.0 * dataset.Y.nnz, 8.0 * described)  # rows and targets of a level; labels to cluster
    needs = Forecast(0, 0, seconds, shrinks=True, copies=MARGIN * COPIES, beside=MARGIN * inputs, floor=floor)
    # in files lie texts, rows (the first level copies them), duals, descriptions and a copy by features, weights
    spilled = BASE + 30.0 * dataset.Y.nnz + 40.0 * len(dataset) + 5.0 * names + min(6e8, vocabulary)
    files = (
        len(dataset.texts.blob) + 16.0 * nnz + DUALS * len(dataset) + 16.0 * described + 12.0 * dataset.Y.nnz + model
    )
    return dataclasses.replace(
        needs.sized(model), shared=MARGIN * shared, spilled=MARGIN * spilled, files=MARGIN * files
    )


def _description_size(dataset: Dataset, nnz: float) -> float:
    """Non-zeros of all label descriptions, estimated from the distinct terms of sampled labels."""
    if isinstance(dataset, Imagined):
        return float(dataset.described * nnz / max(len(dataset), 1) * dataset.Y.nnz)
    by_label, X = dataset.Y.tocsc(), dataset.features.get("given")
    labels = np.random.default_rng(0).permutation(dataset.n_labels)[:200]
    distinct, all_terms = 0.0, 0.0
    for label in labels.tolist():
        rows = by_label.indices[by_label.indptr[label] : by_label.indptr[label + 1]][:2000]
        if X is not None:
            distinct += len(np.unique(X[rows].indices))
            continue
        words = [dataset.texts[row].split() for row in rows.tolist()]
        distinct += len({pair for text in words for pair in (*text, *pairwise(text))})
        all_terms += sum(2 * len(text) for text in words)
    if X is None and all_terms:  # the view has fewer terms than the texts, so only the share of distinct ones is used
        return float(nnz / max(len(dataset), 1) * dataset.Y.nnz * distinct / all_terms)
    return float(distinct / max(len(labels), 1) * dataset.n_labels)
