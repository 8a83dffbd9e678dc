"""DiSMEC: one linear function per label over all texts, trained in blocks of labels and pruned immediately."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treetop.assemble.linear.tree import filter_by_label
from treetop.core.config import setting
from treetop.core.dataset import Csr, Dataset
from treetop.core.executor import executor
from treetop.core.log import Progress, progress
from treetop.core.store import Part
from treetop.core.work import Job
from treetop.evaluate.propensity import inverse_propensity
from treetop.kernels.linear.newton import Penalty
from treetop.kernels.linear.working_set import Settings, Shared, Targets, new_scratch, share, solve_block
from treetop.kernels.runtime import threads
from treetop.kernels.sparse import read_only, rows_of
from treetop.kernels.tree import chunks
from treetop.rank.linear import Linear

TOGETHER = 8  # labels per thread at a time


@dataclass(frozen=True, kw_only=True)
class OneVsAllConfig:
    """How each label's function is trained and pruned."""

    solver: Literal["working_set", "newton"] = setting(
        "working_set", "working-set solver, or Newton steps over all texts (same minimum, ten times slower)"
    )
    cost: float = setting(1.0, "misclassification cost C", low=1e-6)
    propensity_weighting: Literal["none", "up", "down"] = setting(
        "none", "propensity weighting: raise the cost of positives (up), or lower that of negatives (down)"
    )
    bias: Literal["regularised", "plain"] = setting(
        "regularised", "bias regularised like any weight (DiSMEC), or not (DiSMEC++)"
    )
    eps: float = setting(
        0.01, "stopping tolerance relative to the initial gradient norm, scaled by the fraction of positives", low=1e-8
    )
    gap: float = setting(
        5e-4, "working_set: fraction of the objective that texts outside the working set may contribute", low=0.0
    )
    threshold: float = setting(0.01, "prune weights with a smaller magnitude", low=0.0)
    block_size: int = setting(255, "labels per block in training, storage and scoring", low=1)
    storage: Literal["float32", "float16", "int8"] = setting("float32", "storage type of the weights")

    @property
    def settings(self) -> Settings:
        """The settings as the kernels take them."""
        penalty = Penalty(bias=1.0 if self.bias == "regularised" else 0.0)
        return Settings(penalty, eps=self.eps, gap=self.gap, threshold=self.threshold, all_rows=self.solver == "newton")


def train_labels(X: Csr, dataset: Dataset, config: OneVsAllConfig, job: Job) -> Linear:
    """The ranker of all labels; each block of labels is one resumable stage and only pruned weights are kept."""
    here, shared, targets = executor.current(), read_only(share(X)), read_only(_targets(dataset, config))
    everything = here.share((shared, targets, config.settings))
    n_labels, n_features = dataset.n_labels, X.shape[1]
    spans = threads.blocks(n_labels, config.block_size)
    pieces, bias = [], []
    with progress("labels", n_labels) as bar:
        for first, end in spans:
            block = partial(_train_block, everything, X.shape[1], (first, end), config, bar)
            part = job.stage(f"labels-{first:08d}", block)
            bar.step(end - first - bar.done + first)  # also counts blocks of an earlier run
            pieces.append(chunks.Piece(*(part.arrays[name] for name in chunks.Piece._fields)))
            bias.append(part.arrays["bias"])
    slot_ptr = np.array([0, *(end for _, end in spans)], np.int64)
    slots = slot_ptr, np.arange(n_labels, dtype=np.int32)
    flags = _flags(dataset.Y, X)
    packed = chunks.pack(slots, np.concatenate(bias), flags, pieces, n_features)
    return Linear(chunks.stored_as(packed, config.storage), n_features)


def _targets(dataset: Dataset, config: OneVsAllConfig) -> Targets:
    """Positives by label, and the cost of errors on either side, weighted by inverse propensity (2 / p - 1)."""
    by_label = sparse.csc_matrix(dataset.Y > 0, dtype=np.float32)
    by_label.sort_indices()
    same = np.ones(dataset.n_labels)
    n_documents = int(dataset.documents.sum())
    more = 2.0 * inverse_propensity(dataset.label_counts, n_documents, *dataset.propensity) - 1.0
    positive = config.cost * (more if config.propensity_weighting == "up" else same)
    negative = config.cost / (more if config.propensity_weighting == "down" else same)
    left_out = filter_by_label(dataset.filter_pairs, dataset.Y.shape)
    return Targets(rows_of(by_label), left_out, positive.astype(np.float32), negative.astype(np.float32))


def _flags(Y: Csr, X: Csr) -> NDArray[np.uint8]:
    """A label is never returned if none of its texts has a feature: nothing can be learned about it."""
    known = (np.diff(X.indptr) > 0).astype(np.float32) @ (Y > 0)
    return np.where(known > 0, chunks.NORMAL, chunks.ABSENT).astype(np.uint8)


def _train_block(
    everything: Any, n_features: int, span: tuple[int, int], config: OneVsAllConfig, bar: Progress
) -> Part:
    """Pruned weights of a block of labels by feature; labels are solved a few at a time, wherever there is a core."""
    here, (first, end) = executor.current(), span
    together = max(1, min(TOGETHER, (end - first) // here.pieces)) if here.remote else TOGETHER
    shards = [(first + start, first + stop) for start, stop in threads.blocks(end - first, together)]
    blocks = []
    for solved, shard in zip(here.stream(_solve, shards, everything), shards, strict=True):
        blocks.append(solved)
        bar.step(shard[1] - shard[0])
    counts, features, values, bias = (np.concatenate([getattr(f, name) for f in blocks]) for name in NAMES)
    scratch = np.zeros(n_features, np.uint32), np.zeros(n_features // 64 + 1, np.uint64)
    piece = chunks.piece((counts, features, values), scratch, n_features, config.block_size)
    arrays = {**piece._asdict(), "shift": np.asarray(piece.shift), "bias": bias}
    return Part("stage.one_vs_all.1", {}, arrays)


def _solve(span: tuple[int, int], everything: tuple[Shared, Targets, Settings]) -> Any:
    shared, targets, settings = everything
    return solve_block(shared, targets, span, settings, new_scratch(shared))


NAMES = ("counts", "features", "values", "bias")
