"""A linear last level on tf-idf and embedding below the clusters a trained network keeps (DiSMEC on its shortlist).

Each label's function is solved over the texts for which the network keeps the label's cluster, and those that have it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from treetop.assemble.linear_tree import LevelTask, LinearConfig, barred, level_targets, problems_of, train_level
from treetop.assemble.neural_fit import Prepared
from treetop.core.dataset import Csr, Dataset
from treetop.core.log import progress
from treetop.core.store import Part
from treetop.core.types import Join, LabelTree, Level
from treetop.core.work import Job, fingerprint
from treetop.features.fuse import fused
from treetop.features.transformer import Transformer
from treetop.kernels import threads
from treetop.kernels.sparse import rows_of
from treetop.predict.beam import descend
from treetop.rank.linear import Linear
from treetop.shortlist.descend import Descend

ROWS = 2048  # texts whose clusters are looked for at a time


def fused_member(
    dataset: Dataset, prepared: Prepared, levels: Sequence[Level], X: Csr, config: LinearConfig,
    *, tree: LabelTree, view: str, job: Job,
) -> list[Level]:  # fmt: skip
    """The network's levels of clusters, `config.beam` kept on the last, and a linear level of labels below them."""
    above = [*levels[:-2], replace(levels[-2], beam=config.beam)] if len(levels) > 1 else []
    last = len(tree.parents) - 1

    def make() -> Part:
        copy = Transformer.from_part(prepared.transformer.to_part()).to(prepared.device)
        vectors = copy.vectors(prepared.tokens, say="encoding texts")
        both = fused(X, vectors[copy.view_name(copy.poolings[-1])])
        targets = level_targets(dataset.Y, tree)
        inside = None
        if above:
            kept = (_kept(above, vectors, targets[last - 1].shape) + targets[last - 1]).tocsc()
            inside = (kept, kept)
        problems = problems_of(targets[last], None, barred(dataset.filter_pairs, dataset.Y.shape))
        seed = int(fingerprint([job.seed, view]), 16) & 0x7FFFFFFF
        task = LevelTask(rows_of(both), both.shape, problems, inside, seed)
        return train_level(task, tree, last, config).to_part()

    rank = Linear.from_part(job.stage("fused", make))
    return [*above, Level(view, Descend.of(tree, last), rank, Join("sigmoid"))]


def _kept(levels: Sequence[Level], vectors: Mapping[str, Any], shape: tuple[int, int]) -> Csr:
    """(texts x clusters) 1 where the levels keep the cluster for the text."""
    counts, ids = [np.zeros(1, np.int64)], []
    with progress("clusters of texts", shape[0]) as bar:
        for start, stop in threads.blocks(shape[0], ROWS):
            found = descend(levels, {name: view[start:stop] for name, view in vectors.items()}, levels[-1].beam)
            counts.append(np.diff(found.indptr))
            ids.append(found.ids)
            bar.step(stop - start)
    indices, indptr = np.concatenate(ids), np.cumsum(np.concatenate(counts))
    made = sparse.csr_matrix((np.ones(len(indices), np.float32), indices, indptr), shape)
    made.sort_indices()
    return made
