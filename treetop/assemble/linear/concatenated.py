"""DiSMEC on concatenated features: a linear last level on tf-idf and embedding, below a trained network's clusters.

A label's classifier is trained on the texts in whose beam the network keeps the label's cluster, plus its positives; or
on all texts, many labels at a time as matrix products.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from treetop.assemble.linear.tree import (
    LevelTask,
    LinearConfig,
    filter_by_label,
    level_flags,
    problems_of,
    targets_at,
    train_level,
)
from treetop.assemble.staged.level_start import candidate_parents
from treetop.core.config import setting
from treetop.core.dataset import Csr, Dataset, Ints
from treetop.core.errors import ConfigError
from treetop.core.log import progress
from treetop.core.store import Part
from treetop.core.types import Floats, Join, LabelTree, Level, Ranking
from treetop.core.work import Job, fingerprint
from treetop.features.concatenate import concatenated, unit
from treetop.kernels.linear import batched_newton
from treetop.kernels.linear.batched_newton import Features
from treetop.kernels.linear.descent import Problems
from treetop.kernels.linear.newton import Penalty
from treetop.kernels.runtime import threads
from treetop.kernels.sparse import rows_of
from treetop.kernels.tree import chunks
from treetop.labels.pifa import unit_rows
from treetop.network.prepare import Prepared
from treetop.predict.beam import descend
from treetop.rank.head import Head
from treetop.rank.linear import Linear
from treetop.shortlist.descend import Descend

ROWS = 2048  # texts per batch when their clusters are predicted
CELLS = 1 << 26  # size of a matrix of margins, at most


@dataclass(frozen=True, kw_only=True)
class ConcatenatedConfig(LinearConfig):
    """How the linear level is trained, pruned, stored and scored."""

    train_on: Literal["shortlist", "all"] = setting(
        "shortlist", "training texts of a label's classifier: those whose shortlist has the label, or all (for GPUs)"
    )
    embedding_scale: float = setting(
        1.0,
        "norm of the embedding relative to tf-idf of norm 1; its weights are penalised by 1 / embedding_scale^2",
        low=1e-3,
    )
    warm_start: bool = setting(False, "warm start from the network's label vectors (train_on=all)")


def concatenated_member(
    dataset: Dataset, prepared: Prepared, levels: Sequence[Level], X: Csr, config: ConcatenatedConfig,
    *, tree: LabelTree, view: str, job: Job,
) -> list[Level]:  # fmt: skip
    """The network's cluster levels, with a beam of `config.beam` on the last, and a linear level of labels below."""
    above = [*levels[:-2], replace(levels[-2], beam=config.beam)] if len(levels) > 1 else []
    start = _head(levels[-1]) if config.warm_start and config.train_on == "all" else None
    join = Join(config.last_transform or config.transform)
    return linear_below(dataset, prepared, above, X, config, tree=tree, view=view, join=join, job=job, start=start)


def linear_below(
    dataset: Dataset, prepared: Prepared, above: Sequence[Level], X: Csr, config: ConcatenatedConfig,
    *, tree: LabelTree, view: str, join: Join, job: Job, start: Head | None = None,
) -> list[Level]:  # fmt: skip
    """Trained levels of clusters, and a linear level of labels below that reads tf-idf `X` and embedding."""
    last = len(tree.parents) - 1

    def train() -> Part:
        transformer, vectors = prepared.features, prepared.vectors()
        H = vectors[transformer.view_name(transformer.poolings[-1])]
        targets = targets_at(dataset.Y, tree, last)
        left_out = filter_by_label(dataset.filter_pairs, dataset.Y.shape)
        if config.train_on == "all":
            task = AllTask(X, unit(H) * np.float32(config.embedding_scale), problems_of(targets, None, left_out), start)
            return solve_all(task, tree, config, prepared.device).to_part()
        both = concatenated(X, H, config.embedding_scale)
        members = None
        if above:
            candidates = candidate_parents(targets_at(dataset.Y, tree, last - 1), _clusters(above, vectors)).tocsc()
            members = (candidates, candidates)
        seed = int(fingerprint([job.seed, view]), 16) & 0x7FFFFFFF
        level = LevelTask(rows_of(both), both.shape, problems_of(targets, None, left_out), members, seed)
        return train_level(level, tree, last, config).to_part()

    rank = Linear.from_part(job.stage("fused", train))
    return [*above, Level(view, Descend.of(tree, last), rank, join)]


def _head(level: Level) -> Head:
    head = level.rank
    if not isinstance(head, Head) or head.squeeze is not None:
        raise ConfigError("warm_start: the label level must read a single layer. Set layers, or warm_start=false.")
    return head


def _clusters(levels: Sequence[Level], vectors: Mapping[str, Any]) -> Ranking:
    """The clusters in each text's beam."""
    n, parts = len(next(iter(vectors.values()))), []
    with progress("clusters of texts", n) as bar:
        for start, stop in threads.blocks(n, ROWS):
            views = {name: view[start:stop] for name, view in vectors.items()}
            parts.append(descend(levels, views, levels[-1].beam))
            bar.step(stop - start)
    return Ranking.concat(parts)


class AllTask(NamedTuple):
    """Training data if labels are trained on all texts: tf-idf, embeddings, problems, and a head for a warm start."""

    X: Csr
    H: Floats
    problems: Problems
    start: Head | None = None


def solve_all(task: AllTask, tree: LabelTree, config: ConcatenatedConfig, device: torch.device) -> Linear:
    """Train the last level's labels on all texts, a block of whole clusters at a time, and pack their weights."""
    last = len(tree.parents) - 1
    slot_ptr, ids = tree.children(last)
    (n, n_words), n_features = task.X.shape, task.X.shape[1] + task.H.shape[1]
    X = Features.of(unit_rows(task.X), task.H, device)
    penalty = Penalty(1.0, 1.0, config.bias**-2 if config.bias else 1e12)
    bias, pieces = np.zeros(len(ids), np.float32), list[chunks.Piece]()
    scratch = np.zeros(n_features, np.uint32), np.zeros(n_features // 64 + 1, np.uint64)
    width = int(np.diff(slot_ptr).max(initial=0))
    with progress("labels over all texts", len(ids)) as bar:
        for first, end in _spans(slot_ptr, max(1, CELLS // n)):
            labels = ids[slot_ptr[first] : slot_ptr[end]]
            costs = _signed_costs(task, labels, config, device)
            start = None if task.start is None else _warm(task.start, labels, n_words, config.embedding_scale, device)
            W = batched_newton.solve(X, costs, penalty, eps=config.eps, start=start).W
            bias[slot_ptr[first] : slot_ptr[end]] = W[-1].cpu().numpy()
            counts, features, weights = _pruned(W[:-1], n_words, config)
            ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
            for chunk in range(first, end):
                here = slice(*(slot_ptr[chunk : chunk + 2] - slot_ptr[first]))
                span = slice(ends[here.start], ends[here.stop])
                piece = counts[here], features[span], weights[span]
                pieces.append(chunks.piece(piece, scratch, n_features, width))
            bar.step(len(labels))
    packed = chunks.pack((slot_ptr, ids), bias, level_flags(task.problems, tree, last, ids), pieces, n_features)
    return Linear(chunks.stored_as(packed, config.storage), n_features)


def _spans(slot_ptr: Ints, most: int) -> Iterator[tuple[int, int]]:
    """Ranges of whole chunks with at most `most` slots, at least one chunk each."""
    first = 0
    while first < len(slot_ptr) - 1:
        end = max(first + 1, int(np.searchsorted(slot_ptr, slot_ptr[first] + most, side="right")) - 1)
        yield first, end
        first = end


def _signed_costs(task: AllTask, labels: NDArray[np.int32], config: ConcatenatedConfig, device: torch.device) -> Tensor:
    """(texts, labels) misclassification costs, negative for negatives and 0 for ignored pairs."""
    costs = torch.full((task.X.shape[0], len(labels)), -config.cost_negative, device=device)
    for value, rows in ((0.0, task.problems.left_out), (config.cost_positive, task.problems.positives)):
        if len(rows.indptr) > 1:
            by_label = [rows.indices[int(rows.indptr[i]) : int(rows.indptr[i + 1])] for i in labels]
            columns = np.repeat(np.arange(len(labels)), [len(part) for part in by_label])
            texts = np.concatenate(by_label).astype(np.int64)
            costs[torch.from_numpy(texts).to(device), torch.from_numpy(columns).to(device)] = value
    return costs


def _warm(head: Head, labels: NDArray[np.int32], n_words: int, norm: float, device: torch.device) -> Tensor:
    """Warm start: the network's label vectors, scaled for embeddings of this norm, zeros for words, and its bias."""
    weights = np.zeros((n_words + head.weight.shape[1] + 1, len(labels)), np.float32)
    weights[n_words:-1] = head.weight[labels].T / norm
    weights[-1] = np.where(np.isfinite(head.bias[labels]), head.bias[labels], 0.0)
    return torch.from_numpy(weights).to(device)


def _pruned(W: Tensor, n_words: int, config: ConcatenatedConfig) -> tuple[Any, Any, Any]:
    """(counts, features, weights) of all columns: word weights of at least the threshold, and the whole embedding.

    Pruned on the device of W, so that only the kept weights are copied from it.
    """
    kept = (W.abs() >= config.threshold) & (W != 0)
    kept[n_words:] = W[n_words:] != 0
    columns, features = kept.T.nonzero(as_tuple=True)
    weights = W[features, columns].cpu().numpy()
    return kept.sum(0).cpu().numpy().astype(np.uint32), features.cpu().numpy().astype(np.uint32), weights
