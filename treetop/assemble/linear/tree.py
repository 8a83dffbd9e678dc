"""A tree of linear rankers trained level by level: XR-Linear, Parabel, Bonsai, PLT and the last stage of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treetop.core import deadline, spill
from treetop.core.config import setting
from treetop.core.dataset import Csr, Ints
from treetop.core.errors import choose
from treetop.core.executor import executor
from treetop.core.log import progress
from treetop.core.spill import Spill
from treetop.core.store import Part
from treetop.core.types import TRANSFORMS, Join, LabelTree, Level
from treetop.core.work import Job, fingerprint
from treetop.kernels.linear.descent import (
    LOSSES,
    Columns,
    Group,
    Problems,
    Settings,
    solve_group,
    solve_group_spilled,
    solving_bytes,
)
from treetop.kernels.sparse import NO_VALUES, Rows, read_only, rows_of
from treetop.kernels.tree import chunks
from treetop.predict.beam import descend_rows
from treetop.rank.linear import Linear
from treetop.shortlist.descend import Descend

Relevance = Literal["off", "induce", "labels"]
Norm = Literal["none", "l1", "l2", "max"]
Convert = Callable[[Columns, Any], Any]  # what is kept of the weights of a chunk's children; scratch for packing them
NO_ROWS = Rows(np.zeros(1, np.uint64), np.zeros(0, np.uint32), np.zeros(0, np.float32))


@dataclass(frozen=True, kw_only=True)
class LinearConfig:
    """How linear classifiers are trained, pruned, stored and scored."""

    loss: Literal["squared_hinge", "hinge", "logistic"] = setting("squared_hinge", "loss of the binary classifiers")
    cost_positive: float = setting(1.0, "misclassification cost C of positives", low=1e-6)
    cost_negative: float = setting(1.0, "misclassification cost C of negatives", low=1e-6)
    bias: float = setting(1.0, "value of the constant feature; 0: no bias", low=0.0)
    eps: float = setting(0.1, "stopping tolerance on the projected gradient", low=1e-6)
    max_iter: int = setting(100, "maximum passes over the texts", low=1)
    threshold: float = setting(0.1, "prune weights with a smaller magnitude", low=0.0)
    max_nonzeros: int = setting(0, "keep at most this many weights per label, the largest; 0: all", low=0)
    negatives: Literal["tfn", "man", "tfn+man", "man_last"] = setting(
        "tfn", "teacher-forced (tfn), matcher-aware (man), or both; man_last: both on the last level, tfn above"
    )
    train_beam: int = setting(20, "beam when mining matcher-aware negatives", low=1)
    relevance: Relevance = setting("off", "cost-sensitive learning: on all levels (induce), or on the last only")
    relevance_norm: Norm = setting("l1", "normalisation of a text's relevance on each level")
    transform: str = setting("hinge3", "margin to score: noop, [log_]sigmoid, [log_]hinge1 to 4")
    last_transform: str = setting(
        "", "transform of the last level, whose score then replaces the product along the path; empty: as on the others"
    )
    beam: int = setting(10, "beam per level in prediction", low=1)
    storage: Literal["float32", "float16", "int8"] = setting("float32", "storage type of the weights")

    def __post_init__(self) -> None:
        Join(self.transform, "own")
        if self.last_transform:
            choose("last_transform", self.last_transform, TRANSFORMS)

    def join(self, last: bool = False) -> Join:
        """How a level's scores are combined with those of the levels above."""
        if last and self.last_transform:
            return Join(self.last_transform, "own")
        return Join(self.transform, "own" if self.transform == "noop" else "path")

    @property
    def solver(self) -> Settings:
        return Settings(
            LOSSES[self.loss],
            self.cost_positive,
            self.cost_negative,
            self.bias,
            self.eps,
            self.max_iter,
            self.threshold,
            self.max_nonzeros,
        )


class Task(NamedTuple):
    """Training data of a member: features, targets, optional relevance, and pairs that may not be negatives."""

    X: Csr
    Y: Csr
    relevance: Csr | None = None
    filter_pairs: Ints | None = None


class LevelTask(NamedTuple):
    """Training data of one level: feature rows, one binary problem per node, and the rows of each parent's problems."""

    X: Any  # Rows, or what the executor's `share` made of them
    shape: tuple[int, int]
    problems: Problems
    members: tuple[Csr, Csr] | None  # (texts x parents) rows of a parent's problems, and those that may be negatives
    seed: int


def train_member(task: Task, tree: LabelTree, view: str, config: LinearConfig, *, job: Job, name: str) -> list[Level]:
    """Levels from coarse to fine; each is one resumable stage."""
    weights = level_relevance(task, tree, config.relevance, config.relevance_norm)
    X = executor.current().share(read_only(rows_of(task.X)))
    levels: list[Level] = []
    for t in range(len(tree.parents)):
        deadline.check(f"{name}-level-{t:02d}")
        last = t == len(tree.parents) - 1
        members = _members(task, tree, levels, t, config)
        left_out = filter_by_label(task.filter_pairs, task.Y.shape) if last else NO_ROWS
        problems = problems_of(targets_at(task.Y, tree, t), weights[t], left_out)
        seed = int(fingerprint([job.seed, name, t]), 16) & 0x7FFFFFFF
        level = LevelTask(X, task.X.shape, problems, members, seed)
        part = job.stage(f"{name}-level-{t:02d}", partial(_trained, level, tree, t, config))
        levels.append(Level(view, Descend.of(tree, t), Linear.from_part(part), config.join(last), config.beam))
    return levels


def _trained(task: LevelTask, tree: LabelTree, t: int, config: LinearConfig) -> Part:
    return train_level(task, tree, t, config).to_part()


def targets_at(Y: Csr, tree: LabelTree, t: int) -> Csr:
    """Targets of a level: the number of a text's labels below each node."""
    if t == len(tree.parents) - 1:
        return _ones(Y)
    node = tree.parents[-1]
    for parent in tree.parents[-2:t:-1]:
        node = parent[node]
    return (_ones(Y) @ _below(node, len(tree.parents[t]))).tocsr()


def _ones(Y: Csr) -> Csr:
    """1 wherever a target is above zero."""
    ones = sparse.csr_matrix(((Y.data > 0).astype(np.float32), Y.indices, Y.indptr), Y.shape)
    if not ones.data.all():
        ones.eliminate_zeros()
    return ones


def _below(parent: NDArray[np.integer], n_parents: int) -> Csr:
    """(nodes x parents) 1 where a node has that parent."""
    n = len(parent)
    return sparse.csr_matrix((np.ones(n, np.float32), (np.arange(n), parent)), (n, n_parents))


def level_relevance(task: Task, tree: LabelTree, kind: Relevance, norm: Norm = "none") -> list[Csr | None]:
    """Misclassification costs of positives on each level: relevance summed up the tree, normalised per text."""
    relevance: list[Csr | None] = [None] * len(tree.parents)
    if kind == "off":
        return relevance
    R = _ones(task.Y) if task.relevance is None else task.relevance
    for t in range(len(tree.parents) - 1, -1, -1):
        relevance[t] = _scaled(R, norm)
        if kind == "labels" or t == 0:
            break
        R = (R @ _below(tree.parents[t], len(tree.parents[t - 1]))).tocsr()
    return relevance


def _scaled(R: Csr, norm: Norm) -> Csr:
    if norm == "none":
        return R
    size = np.abs(R.data).astype(np.float64)
    rows = np.repeat(np.arange(R.shape[0]), np.diff(R.indptr))
    if norm == "max":
        total = np.zeros(R.shape[0])
        np.maximum.at(total, rows, size)
    else:
        total = np.bincount(rows, size if norm == "l1" else size**2, minlength=R.shape[0])
        total = total if norm == "l1" else np.sqrt(total)
    return sparse.csr_matrix(((R.data / total[rows]).astype(np.float32), R.indices, R.indptr), R.shape)


def problems_of(targets: Csr, weights: Csr | None, left_out: Rows = NO_ROWS) -> Problems:
    """The positives of each binary problem, with their costs if there are any."""
    by_node = (targets if weights is None else weights).tocsc()
    by_node.sort_indices()
    rows = rows_of(by_node)
    return Problems(rows._replace(values=NO_VALUES) if weights is None else rows, left_out)


def filter_by_label(pairs: Ints | None, shape: tuple[int, int]) -> Rows:
    """The texts that the filter excludes for each label; they may not be its negatives."""
    if pairs is None or not len(pairs):
        return NO_ROWS
    return rows_of(sparse.csc_matrix((np.ones(len(pairs), np.float32), (pairs[:, 0], pairs[:, 1])), shape))


def _members(
    task: Task, tree: LabelTree, levels: Sequence[Level], t: int, config: LinearConfig
) -> tuple[Csr, Csr] | None:
    """(texts x parents) the rows of each parent's problems, and those among them that may be negatives."""
    if t == 0:
        return None
    positive = targets_at(task.Y, tree, t - 1).tocsc()
    if config.negatives == "tfn" or (config.negatives == "man_last" and t < len(tree.parents) - 1):
        return positive, positive
    ranking = descend_rows(levels, {levels[0].view: task.X}, config.train_beam)
    matched = ranking.to_csr(len(tree.parents[t - 1]))
    matched.data = np.ones_like(matched.data)
    both = (matched + positive).tocsc()
    return both, matched.tocsc() if config.negatives == "man" else both


def train_level(task: LevelTask, tree: LabelTree, t: int, config: LinearConfig) -> Linear:
    """Solve every parent's problems and pack them in order."""
    slot_ptr, ids = tree.children(t)
    n_features = task.shape[1]
    bias, width = np.zeros(len(ids), np.float32), int(np.diff(slot_ptr).max(initial=0))
    pieces = chunks.Pieces(len(slot_ptr) - 1)
    convert = partial(_bias_and_piece, n_features=n_features, width=width)
    for chunk, (own_bias, piece) in solve_level(task, tree, t, config.solver, convert):
        bias[slot_ptr[chunk] : slot_ptr[chunk + 1]] = own_bias
        pieces.put(chunk, piece)
    flags = level_flags(task.problems, tree, t, ids)
    packed = chunks.pack((slot_ptr, ids), bias, flags, pieces.in_order(), n_features)
    return Linear(chunks.stored_as(packed, config.storage), n_features)


def _bias_and_piece(solved: Columns, scratch: Any, *, n_features: int, width: int) -> tuple[Any, chunks.Piece]:
    return solved.bias, chunks.piece(solved[:3], scratch, n_features, width)


class _Level(NamedTuple):
    """What the shards of a level share besides the feature rows."""

    shape: tuple[int, int]
    problems: Problems
    members: tuple[Csr, Csr] | None
    children: tuple[NDArray[Any], NDArray[Any]]  # (slot_ptr, ids)
    seed: int
    solver: Settings
    convert: Convert
    place: Spill | None  # where large arrays lie


def solve_level(
    task: LevelTask, tree: LabelTree, t: int, solver: Settings, convert: Convert
) -> Iterator[tuple[int, Any]]:
    """(chunk, what `convert` keeps of its children's weights) of every parent, those with most work first."""
    n_rows, n_features = task.shape
    solver = solver._replace(max_nonzeros=min(solver.max_nonzeros, n_features))
    slot_ptr, ids = tree.children(t)
    rows_per_chunk = np.full(1, n_rows) if task.members is None else np.diff(task.members[0].indptr)
    costs = rows_per_chunk * np.diff(slot_ptr)
    order = np.argsort(-costs, kind="stable")
    level = _Level(
        task.shape, read_only(task.problems), task.members, (slot_ptr, ids), task.seed, solver, convert, spill.current()
    )
    here = executor.current()
    shards = [order[start:stop] for start, stop in executor.cut(costs[order], here.pieces)]
    with progress(f"level {t + 1} of {len(tree.parents)}", len(order)) as bar:
        for solved in here.stream(_solve, shards, task.X, level):
            yield from solved
            bar.step(len(solved))


def _solve(chunks_: NDArray[Any], X: Rows, level: _Level) -> list[tuple[int, Any]]:
    """The problems of some parents, one after the other."""
    n_rows, n_features = level.shape
    slot_ptr, ids = level.children
    scratch = np.zeros(n_features, np.uint32), np.zeros(n_rows, np.uint32)
    marks = np.zeros(n_features // 64 + 1, np.uint64)
    solved = []
    for chunk in chunks_.tolist():
        children = ids[slot_ptr[chunk] : slot_ptr[chunk + 1]]
        group = Group(children.astype(np.uint32), *_rows_of(level.members, chunk, n_rows), level.seed + chunk)
        columns = _solved(X, level, group, scratch)
        solved.append((chunk, level.convert(columns, (scratch[0], marks))))
    return solved


def _solved(X: Rows, level: _Level, group: Group, scratch: Any) -> Columns:
    """Weights of a group; in files if its arrays are large and large ones lie there."""
    if level.place is not None:
        entries = int((X.indptr[group.rows + np.uint32(1)] - X.indptr[group.rows]).sum())
        if level.place.takes(solving_bytes(group, entries)):
            return solve_group_spilled(X, level.problems, group, level.solver, scratch, level.place)
    return solve_group(X, level.problems, group, level.solver, scratch)


def _rows_of(members: Any, chunk: int, n_rows: int) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """(rows of a parent's problems, 1 where a row may be a negative)"""
    if members is None:
        return np.arange(n_rows, dtype=np.uint32), np.ones(n_rows, np.uint8)
    all_rows, negatives = members
    rows = np.sort(all_rows.indices[all_rows.indptr[chunk] : all_rows.indptr[chunk + 1]]).astype(np.uint32)
    if negatives is all_rows:
        return rows, np.ones(len(rows), np.uint8)
    allowed = negatives.indices[negatives.indptr[chunk] : negatives.indptr[chunk + 1]]
    return rows, np.isin(rows, allowed).astype(np.uint8)


def level_flags(problems: Problems, tree: LabelTree, t: int, ids: NDArray[np.int32]) -> NDArray[np.uint8]:
    """Flags of the nodes: a copy passes on its parent's score; a node without positives is never returned."""
    empty = np.diff(problems.positives.indptr.view(np.int64)) == 0
    flags = np.where(empty, chunks.ABSENT, chunks.NORMAL).astype(np.uint8)
    copies = tree.copies[t] if tree.copies else None
    if copies is not None:
        flags[copies & ~empty] = chunks.COPY
    return flags[ids]
