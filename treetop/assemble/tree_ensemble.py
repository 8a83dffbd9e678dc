"""Several linear trees over one view, blended: what XR-Linear, Parabel, Bonsai and PLT have in common."""

from __future__ import annotations

from collections.abc import Callable

from treetop.assemble.budget import Held, fit_within
from treetop.assemble.label_tree import tree_stage
from treetop.assemble.linear_tree import LinearConfig, Task, train_member
from treetop.assemble.view import SparseView, sparse_view
from treetop.core.dataset import Csr, Dataset
from treetop.core.forecast import Forecast
from treetop.core.log import logger
from treetop.core.store import Part
from treetop.core.types import LabelTree, Level
from treetop.core.work import Job
from treetop.data.split import holdout
from treetop.features.tfidf import TfidfConfig
from treetop.model import Model, labels_part
from treetop.predict.blend import Blend

MakeTree = Callable[[SparseView, int], LabelTree]  # (view, seed) -> tree


def fit_trees(
    dataset: Dataset,
    tfidf: TfidfConfig,
    linear: LinearConfig,
    make_tree: MakeTree,
    *,
    trees: int,
    blend: Blend,
    job: Job,
) -> Model:
    """Train `trees` members that differ in the seed of their tree and share features."""
    view = sparse_view(dataset, tfidf, job)
    grown = [_tree(job, f"tree-{m:02d}", view, make_tree, job.seed + m) for m in range(trees)]

    def train(config: LinearConfig, stage: str, data: Dataset = dataset, X: Csr = view.X) -> list[list[Level]]:
        task = Task(X, data.Y, data.relevance, data.filter_pairs)
        names = [f"{stage}-{m:02d}" for m in range(trees)]
        return [
            train_member(task, tree, view.name, config, job=job, name=name)
            for tree, name in zip(grown, names, strict=True)
        ]

    if "model" not in job.budget:
        return Model.over(dataset, view.features, train(linear, "member"), blend)
    kept, out = holdout(dataset, min(0.1, 2000 / max(len(dataset), 1)), job.seed)
    part = dataset.take(kept)
    held = Held(
        lambda config, stage: train(config, stage, part, view.X[kept]),
        {view.name: view.X[out]}, dataset.take(out), blend,
    )  # fmt: skip
    fixed = _bytes(labels_part(dataset.labels, dataset.label_counts))
    fixed += sum(_bytes(features.to_part()) for features in view.features.values()) + 50_000
    members = fit_within(train, linear, held, limit=job.budget["model"], fixed=fixed)
    return Model.over(dataset, view.features, members, blend)


def _tree(job: Job, name: str, view: SparseView, make_tree: MakeTree, seed: int) -> LabelTree:
    tree = tree_stage(job, name, lambda: make_tree(view, seed))
    logger.info("%s: %s", name, " → ".join(f"{size:,}" for size in tree.sizes))
    return tree


def _bytes(part: Part) -> float:
    return sum(array.nbytes for array in part.arrays.values()) + sum(_bytes(inner) for inner in part.parts.values())


def forecast_trees(dataset: Dataset, tfidf: TfidfConfig, linear: LinearConfig, trees: int) -> Forecast:
    """Memory, model size and time of `fit_trees`, from the shape of the data."""
    low, high = tfidf.ngrams or (1, 5)
    given = dataset.features.get("given")
    grams = len(dataset.texts.blob) / 6.5 * (1 + high - low)
    nnz = float(given.nnz) if given is not None else grams * (0.75 if tfidf.min_df > 1 else 1.0)
    per_label = nnz / max(len(dataset), 1) * dataset.Y.nnz / max(dataset.n_labels, 1)
    weights = dataset.n_labels * min(per_label, 3000.0) * 1.2  # pruned; upper levels add a fifth
    width = {"float32": 4, "float16": 2, "int8": 1}[linear.storage]
    names = 2.0 * (len(dataset.labels.names.blob) + len(dataset.labels.texts.blob))
    model = trees * weights * (width + 3.0) + names + (0 if given is not None else grams * 6)
    working = 12.0 * nnz + 16.0 * dataset.Y.nnz + 2 * len(dataset.texts.blob) + 12.0 * weights + model
    memory = 2.5e8 + 1.06 * working  # the interpreter with its kernels, and what was seen on five data sets
    seconds = 3.0 + trees * nnz / max(len(dataset), 1) * dataset.Y.nnz * 5e-7 * (4 if "man" in linear.negatives else 1)
    return Forecast(memory=memory, model=model, time=seconds, shrinks=True)
