"""Labels that get new rows learn them; nothing else is trained, and what else the model says keeps every bit.

A label stays below the nodes it hangs on. The function it has stands for what it was learned from: it moves as far as
the new rows that reach its nodes pull it (kernels/linear/refine.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treetop.assemble.linear.tree import LinearConfig
from treetop.core.dataset import RETIRED, Csr, Dataset, Ints
from treetop.core.errors import InputError
from treetop.core.store import Part
from treetop.edit.examples import ones, reached_nodes, settings_of
from treetop.kernels.linear.refine import Pull, refine
from treetop.kernels.sparse import csr_of, rows_of
from treetop.rank.linear import Linear

if TYPE_CHECKING:
    from treetop.model import Model

OLD = 0.3  # weight of an old text of a label in the share of its texts that is new, which scales the costs


def targets_of(model: Model, rows: Dataset) -> tuple[Csr, Ints]:
    """((rows, labels) 1 where a row has a label, the columns of these labels): those with rows that are not retired.

    Rows of a label that was merged into another count for that one.
    """
    known = model.labels.columns
    column = np.array([known.get(id_, -1) for id_ in rows.labels.ids], np.int64)
    if model.overlay is not None and model.overlay.target is not None:
        column = np.where(column >= 0, model.overlay.target[column], -1).astype(np.int64)
    row = np.repeat(np.arange(len(rows)), np.diff(rows.Y.indptr))
    label = column[rows.Y.indices]
    kept = (label >= 0) & (rows.Y.data > 0) & rows.documents[row]
    kept[kept] = model.labels.status[label[kept]] != RETIRED
    columns, place = np.unique(label[kept], return_inverse=True)
    Y = sparse.csr_matrix((np.ones(int(kept.sum()), np.float32), (row[kept], place)), (len(rows), len(columns)))
    Y.data[:] = 1.0
    return Y, columns


def relearn(model: Model, rows: Dataset, *, needed: bool = True) -> tuple[dict[str, Part], Ints, Ints]:
    """(functions and nodes above of the labels with new rows for each member; their columns; new texts of each)"""
    config = settings_of(model, "learn")
    Y, columns = targets_of(model, rows)
    if len(columns) == 0 and needed:
        raise InputError("learn: no row has a label that is not retired. Give rows with labels to learn.")
    views = model.views(rows.texts, rows.features)
    parts = {}
    for m, levels in enumerate(model.members if len(columns) else ()):
        hung, reached = _nodes_of(model, m, columns), ones(reached_nodes(levels, views))
        rank = _moved(model, m, columns, (views[levels[-1].view], Y, reached @ hung.T + Y), config)
        arrays = {"parent_ptr": hung.indptr.astype(np.int64), "parents": hung.indices.astype(np.int32)}
        parts[f"member-{m:02d}"] = Part("edit.functions.1", {}, arrays, {"rank": rank.to_part()})
    fresh = np.bincount(Y.indices, minlength=len(columns))
    return parts, columns, np.minimum(fresh, model.n_train - model.counts[columns]).astype(np.int64)


def _moved(model: Model, m: int, columns: Ints, own: tuple[Csr, Csr, Csr], config: LinearConfig) -> Linear:
    """The functions of labels, moved by the rows that reach their nodes."""
    X, Y, near = own
    weights, bias = _functions(model, m, columns)
    pull = (2 * Y - ones(near + Y)).tocsc()  # 1 where a row has the label, -1 where it only comes near
    pull.sort_indices()
    new = np.bincount(Y.indices, minlength=len(columns))
    factor = (new / (new + OLD * model.counts[columns])).astype(np.float32)
    moved = refine(rows_of(X), X.shape[1], rows_of(weights), bias, Pull(rows_of(pull), factor), config.solver)
    return Linear.of(csr_of(moved, X.shape[1]), bias, config.storage)


def _functions(model: Model, m: int, columns: Ints) -> tuple[Csr, NDArray[np.float32]]:
    """(weights, biases) by which a member scores labels."""
    rows, bias = [], []
    for column in columns.tolist():
        rank, node = _home(model, m, column)
        rows.append(rank.vector(node))
        bias.append(rank.bias_of(node))
    return sparse.vstack(rows, "csr", np.float32), np.array(bias, np.float32)


def _home(model: Model, m: int, column: int) -> tuple[Any, int]:
    """(the functions among which a member has that of a label, its number there)"""
    overlay = model.overlay
    place = None if overlay is None else overlay.place(column)
    if overlay is not None and place is not None:
        return overlay.extra[m].rank, place
    return model.members[m][-1].rank, column


def _nodes_of(model: Model, m: int, columns: Ints) -> Csr:
    """(columns, nodes) 1 at the nodes that labels hang on."""
    levels, overlay = model.members[m], model.overlay
    trained: Any = levels[-1].shortlist
    above = np.empty(model.n_trained, np.int64)
    above[trained.children] = np.repeat(np.arange(trained.n_parents), np.diff(trained.indptr))
    found = []
    for column in columns.tolist():
        place = None if overlay is None else overlay.place(column)
        if overlay is None or place is None:
            found.append([int(above[column])])
        else:
            shortlist: Any = overlay.extra[m].shortlist
            found.append(shortlist.parents_of(place) if len(levels) > 1 else [0])
    indptr = np.concatenate([[0], np.cumsum([len(nodes) for nodes in found])])
    nodes = np.concatenate(found).astype(np.int64)
    hung = sparse.csr_matrix((np.ones(len(nodes), np.float32), nodes, indptr), (len(columns), trained.n_parents))
    hung.sort_indices()
    return hung
