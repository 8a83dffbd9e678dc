"""Linear functions for labels that were not there in training, learned from examples; nothing else is trained.

A new label hangs below the nodes to which the trained levels lead its own texts. Its function is solved like those of
the other labels there, with the same loss and costs: its texts against the other examples that reach one of its nodes
and against the training texts of its siblings, of which there are stand-ins where the model does not keep them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from treetop.assemble.linear.tree import LevelTask, LinearConfig, problems_of, train_level
from treetop.core.abilities import HasParents
from treetop.core.config import build
from treetop.core.dataset import Csr, Dataset, Ints, LabelSet
from treetop.core.errors import ConfigError, InputError, LabelError
from treetop.core.log import logger
from treetop.core.store import Part
from treetop.core.texts import Texts
from treetop.core.types import LabelTree, Level, View
from treetop.core.work import fingerprint
from treetop.edit.stand_ins import language_of, stand_ins
from treetop.kernels.sparse import rows_of
from treetop.predict.beam import nodes_above
from treetop.rank.linear import Linear

if TYPE_CHECKING:
    from treetop.model import Model

PARENTS = 3  # nodes above that a new label hangs under
TREES = ("xr_linear", "parabel", "bonsai", "extremetext")
REFUSALS = {
    "labels add": "does not learn labels from examples. Trees of linear functions do (xr_linear, parabel, bonsai, "
    "extremetext); recipes with an encoder add labels by their texts alone, and others are trained again on all rows.",
    "learn": "does not learn further from new rows. Trees of linear functions do (xr_linear, parabel, bonsai, "
    "extremetext); train this one again on all rows, old and new (`treetop fit ... --overwrite`).",
}
NEW_WORDS = 0.1  # share of the words of new rows that the model does not know, from which a warning tells
MOST = 20_000  # kept training texts that are negatives of one label


def settings_of(model: Model, command: str) -> LinearConfig:
    """How the model's labels were trained; refuses models that are not trees of linear functions."""
    given = model.card.config.get("linear")
    flat = model.card.recipe.rpartition("+")[2] in TREES  # few labels are a tree of one level
    trees = all((flat or len(levels) > 1) and isinstance(levels[-1].rank, Linear) for levels in model.members)
    if not trees or model.card.models or not isinstance(given, Mapping):
        raise ConfigError(f"{command}: '{model.card.recipe}' {REFUSALS[command]}")
    return build(LinearConfig, given)


def log_what_learns(model: Model, rows: Dataset) -> None:
    """Say what rows teach to a trained model, and that words it does not know teach it nothing."""
    logger.info(
        "%s: only the functions of their labels learn from these %s rows; words, tree, probabilities stay as trained",
        rows.name, f"{len(rows):,}",
    )  # fmt: skip
    known = model.known_words(rows.texts)
    new = 1 - float(np.nanmean(known)) if np.isfinite(known).any() else 0.0
    if new > NEW_WORDS:
        logger.warning(
            "%s: %.0f %% of the words of these rows are new to the model, which does not read them. Train it again on "
            "all rows to have them (`treetop fit ... --overwrite`).",
            rows.name, 100 * new,
        )  # fmt: skip


def unknown_labels(model: Model, examples: Dataset) -> LabelSet:
    """The labels of the examples that the model does not know."""
    labels, columns = examples.labels, unknown(model, examples)
    if not columns:
        raise InputError("labels add: the model knows every label of the examples. Give rows with new labels.")
    return LabelSet.of(*([strings[c] for c in columns] for strings in (labels.ids, labels.names, labels.texts)))


def unknown(model: Model, examples: Dataset) -> list[int]:
    """Columns of labels that rows of the examples have and the model does not know."""
    used = np.bincount(examples.Y.indices[examples.Y.data > 0], minlength=examples.n_labels) > 0
    return [c for c, id_ in enumerate(examples.labels.ids) if used[c] and id_ not in model.labels.columns]


def learn(model: Model, new: LabelSet, examples: Dataset) -> tuple[dict[str, Part], Ints]:
    """(functions and nodes above of the new labels for each member, as parts of an edit; examples of each label)"""
    config, Y = settings_of(model, "labels add"), targets_of(new, examples)
    views = model.views(examples.texts, examples.features)
    alone = LabelTree((np.zeros(len(new), np.int32), np.arange(len(new), dtype=np.int32)))  # a chunk for each label
    shared = _shared(model, examples, Y)
    seed = int(fingerprint([list(new.ids)]), 16) & 0x7FFFFFFF
    parts = {}
    for m, levels in enumerate(model.members):
        reached = reached_nodes(levels, views)
        hung = nodes_of(Y, reached)
        own = (views[levels[-1].view], Y, ones(reached) @ hung.T + Y)
        beside = _siblings(model, levels, hung, examples.texts) or _stand_ins(
            model, levels, hung, own, shared, seed + m
        )
        blocks = [own, *beside]
        X, targets, rows = (sparse.vstack(side, "csr", np.float32) for side in zip(*blocks, strict=True))
        members = ones(rows).tocsc()
        task = LevelTask(rows_of(X), X.shape, problems_of(targets, None), (members, members), seed)
        arrays = {"parent_ptr": hung.indptr.astype(np.int64), "parents": hung.indices.astype(np.int32)}
        rank = train_level(task, alone, 1, config)
        parts[f"member-{m:02d}"] = Part("edit.functions.1", {}, arrays, {"rank": rank.to_part()})
    return parts, np.minimum(np.bincount(Y.indices, minlength=len(new)), model.n_train).astype(np.int64)


def reached_nodes(levels: Sequence[Level], views: Mapping[str, View]) -> Csr:
    """(rows, nodes above the labels) the scores of the nodes that rows reach; a single level hangs on one node."""
    above = nodes_above(levels, views)
    if above is None:
        return sparse.csr_matrix(np.ones((views[levels[-1].view].shape[0], 1), np.float32))
    return above.to_csr(levels[-2].rank.n)


def targets_of(new: LabelSet, examples: Dataset) -> Csr:
    """(rows, new labels) 1 where a row of the examples has a label; every label needs a row."""
    column = np.array([new.columns.get(id_, -1) for id_ in examples.labels.ids], np.int64)
    rows = np.repeat(np.arange(len(examples)), np.diff(examples.Y.indptr))
    labels = column[examples.Y.indices]
    kept = (labels >= 0) & (examples.Y.data > 0) & examples.documents[rows]
    ones = np.ones(int(kept.sum()), np.float32)
    Y = sparse.csr_matrix((ones, (rows[kept], labels[kept])), (len(examples), len(new)))
    for label in np.flatnonzero(np.bincount(labels[kept], minlength=len(new)) == 0).tolist():
        id_ = new.ids[label]
        raise LabelError(f"label '{id_}': no row of the examples has it. Add one, or leave the label out.", label=id_)
    return Y


def nodes_of(Y: Csr, reached: Csr) -> Csr:
    """(labels, nodes) 1 at the `PARENTS` nodes with the highest sum of scores over a label's texts."""
    total = (Y.T @ reached).tocsr()
    label = np.repeat(np.arange(total.shape[0]), np.diff(total.indptr))
    order = np.lexsort((total.indices, -total.data, label))
    best = order[np.arange(total.nnz) - total.indptr[label] < PARENTS]
    hung = sparse.csr_matrix((np.ones(len(best), np.float32), (label[best], total.indices[best])), total.shape)
    hung.sort_indices()
    return hung


def ones(matrix: Any) -> Csr:
    """1 at every stored entry."""
    csr = matrix.tocsr()
    return sparse.csr_matrix((np.ones(csr.nnz, np.float32), csr.indices, csr.indptr), csr.shape)


def _siblings(model: Model, levels: Sequence[Level], hung: Csr, known: Texts) -> list[tuple[Csr, Csr, Csr]]:
    """(view, no targets, labels they are negatives of) of the kept training texts with a sibling of a new label.

    A text that is an example itself is left out: in training it may have lacked the new label.
    """
    documents, shortlist = model.documents, levels[-1].shortlist
    if documents is None or not isinstance(shortlist, HasParents):
        return []
    parent = np.repeat(np.arange(shortlist.n_parents), np.diff(shortlist.indptr))
    ones = np.ones(len(parent), np.float32)
    below = sparse.csr_matrix((ones, (shortlist.children, parent)), (len(parent), shortlist.n_parents))
    beside = (documents.Y @ (below @ hung.T)).tocsr()
    examples = set(known)
    fresh = [row for row in np.flatnonzero(np.diff(beside.indptr)).tolist() if documents.texts[row] not in examples]
    chosen = _thinned(beside[np.array(fresh, np.int64)])
    rows = np.flatnonzero(np.diff(chosen.indptr))
    X = model.views(documents.texts.take(np.array(fresh, np.int64)[rows]))[levels[-1].view]
    return [(X, sparse.csr_matrix((len(rows), hung.shape[0]), dtype=np.float32), chosen[rows])]


def _stand_ins(
    model: Model, levels: Sequence[Level], hung: Csr, own: tuple[Csr, Csr, Csr], shared: Csr, seed: int
) -> list[tuple[Csr, Csr, Csr]]:
    """(view, no targets, labels they are negatives of) of stand-ins for the texts of siblings.

    As many as a node has texts, less the examples that reach it without a label that hangs there. Of the texts of a
    sibling the share that examples say to have the new label is none of its negatives.
    """
    X, Y, reached = own
    rank: Linear = levels[-1].rank  # type: ignore[assignment]
    negatives = np.asarray(ones((reached - reached.multiply(Y)) @ hung).sum(0)).ravel()
    nodes = np.unique(hung.indices)
    there = dict(zip(nodes.tolist(), negatives[nodes].astype(int).tolist(), strict=True))
    made, under, labels = stand_ins(rank, model.counts, there, language_of(X), seed)
    near = hung.T.tocsr()[under]
    both = near.multiply(shared[labels]).tocsr()
    both.data = (np.random.default_rng(seed).random(both.nnz) < both.data).astype(np.float32)
    return [(made, sparse.csr_matrix((len(under), hung.shape[0]), dtype=np.float32), ones(positive(near - both)))]


def positive(matrix: Csr) -> Csr:
    """Without entries that are 0."""
    matrix.eliminate_zeros()
    return matrix


def _shared(model: Model, examples: Dataset, Y: Csr) -> Csr:
    """(labels of the model, new labels) which share of a label's texts are examples of the new one, too."""
    column = np.array([model.labels.columns.get(id_, -1) for id_ in examples.labels.ids], np.int64)
    old = examples.Y.tocoo()
    kept = (column[old.col] >= 0) & (column[old.col] < len(model.counts)) & (old.data > 0)
    pairs = (column[old.col[kept]], old.row[kept])
    known = sparse.csr_matrix((np.ones(len(pairs[0]), np.float32), pairs), (len(model.counts), len(examples)))
    both: Csr = (known @ Y).tocsr()
    both.data /= np.maximum(np.repeat(model.counts, np.diff(both.indptr)), both.data)
    return both


def _thinned(beside: Csr) -> Csr:
    """At most `MOST` entries of each column, drawn at random."""
    by_label = beside.tocsc()
    label = np.repeat(np.arange(by_label.shape[1]), np.diff(by_label.indptr))
    order = np.lexsort((np.random.default_rng(0).random(by_label.nnz), label))
    kept = order[np.arange(by_label.nnz) - by_label.indptr[label] < MOST]
    pairs = (by_label.indices[kept], label[kept])
    return sparse.csr_matrix((by_label.data[kept], pairs), by_label.shape)
