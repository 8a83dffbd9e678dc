"""Several linear trees over one view, blended: what XR-Linear, Parabel, Bonsai and PLT have in common."""

from __future__ import annotations

from collections.abc import Callable

from treetop.assemble.label_tree import tree_stage
from treetop.assemble.linear_tree import LinearConfig, Task, train_member
from treetop.assemble.view import SparseView, sparse_view
from treetop.core.dataset import Dataset
from treetop.core.forecast import Forecast
from treetop.core.log import logger
from treetop.core.types import LabelTree
from treetop.core.work import Job
from treetop.features.tfidf import TfidfConfig
from treetop.model import Model
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
    task = Task(view.X, dataset.Y, dataset.relevance, dataset.filter_pairs)
    members = []
    for m in range(trees):
        name = f"tree-{m:02d}"
        seed = job.seed + m
        tree = tree_stage(job, name, lambda seed=seed: make_tree(view, seed))  # type: ignore[misc]
        logger.info("%s: %s", name, " → ".join(f"{size:,}" for size in tree.sizes))
        members.append(train_member(task, tree, view.name, linear, job=job, name=name))
    return Model.over(dataset, view.features, members, blend)


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
    return Forecast(memory=memory, model=model, time=seconds)
