"""Networks over vectors made by chance, built as training builds them; and the toy data with label texts as rows."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from scipy import sparse

import toy
from treetop.assemble.label_rows import with_rows
from treetop.core.dataset import LABEL_TEXT, Dataset
from treetop.core.types import LabelTree
from treetop.kernels import reference
from treetop.labels.text import label_words
from treetop.network.build import Blueprint, Learning
from treetop.network.head import HeadPlan
from treetop.network.inputs import Cached
from treetop.network.watch import rows_held_out
from treetop.train.batches import Batch
from treetop.train.optim import AdamConfig

CPU = torch.device("cpu")
N, WIDTH, L = 30, 6, toy.N_LABELS
PARENT = np.array([0, 1, 2, 2, 1, 0, 3, 3, 3, 1] * 4, np.int32)  # 40 labels in 4 clusters
TREE, FLAT = LabelTree((np.zeros(4, np.int32), PARENT)), LabelTree((np.zeros(L, np.int32),))
LEARN = AdamConfig(lr=0.05, weight_decay=0.0)


def plans(tree, *, width=WIDTH, keep=0, **last) -> list[HeadPlan]:
    """One head per level of a tree, each on the view `v`; `last` are settings of the labels' head."""
    made = [HeadPlan(view="v", view_width=width, n=n, name=f"level {t}") for t, n in enumerate(tree.sizes)]
    kept = {"keep": keep} if len(made) > 1 else {}
    return [*made[:-1], dataclasses.replace(made[-1], name="labels", **kept, **last)]


def cached(views) -> Cached:
    """Views of a frozen encoder."""
    return Cached({"v": views}, np.ones(len(views), np.int64), CPU)


def network(
    tree, dataset, *, keep=2, last=None, start=None, given=None, views=None, learning=None, held_out=None, **more
):
    """(a network over a tree, its rows' vectors); the labels' head weighs a half below another one."""
    views = np.random.default_rng(0).normal(size=(len(dataset), WIDTH)).astype(np.float32) if views is None else views
    last = {**({"weight": 0.5} if len(tree.sizes) > 1 else {}), **(last or {})}
    blueprint = Blueprint(
        plans(tree, width=views.shape[1], keep=keep, **last), tree,
        Learning(**{"encoder": LEARN, "heads": LEARN, **(learning or {})}),
        given, start={} if start is None else {"v": start},
    )  # fmt: skip
    inputs = cached(views)
    watched = None if held_out is None else rows_held_out(dataset, inputs, held_out)
    return blueprint.network(dataset, inputs, watched=watched, **{"seed": 0, **more}), views


def batch(rows, step=0) -> Batch:
    rows = np.array(list(rows))
    return Batch(rows, rows, len(rows), step)


def loss_of(task, rows, *, static=False) -> torch.Tensor:
    """The loss of a batch of these rows."""
    return task.loss(task.load(batch(rows), static))


def soft(**changes) -> Dataset:
    """The toy data with label texts as rows whose targets are shares."""
    data = toy.dataset(n=N)
    shares = reference.label_shares(data.Y.toarray(), 0.1)
    assert ((shares > 0) & (shares < 1)).any()
    data = with_rows(data, Dataset(label_words(data.labels), sparse.csr_matrix(shares), data.labels), LABEL_TEXT)
    return dataclasses.replace(data, **changes)
