"""One network per level of a label tree, coarse to fine; each starts from the one above (AttentionXML).

The first level scores all its nodes. Every further one scores the children of a text's true parents and of those that
the levels above rank highest, as they stand after their training. Encoder and shared layers are handed down, label
vectors start anew; all levels stay in the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from treetop.core.dataset import Dataset
from treetop.core.log import logger
from treetop.core.store import Part
from treetop.core.types import Join, LabelTree, Level, Rank, Ranking, View
from treetop.core.work import Job
from treetop.features.words.words import Words
from treetop.network.build import Blueprint, Learning
from treetop.network.fit import train_network
from treetop.network.head import HeadPlan
from treetop.network.prepare import Prepared
from treetop.network.targets import of_clusters
from treetop.network.watch import over_clusters, sampled_job
from treetop.partition.flat import flat
from treetop.predict.beam import step
from treetop.rank.attention import Attention
from treetop.shortlist.descend import Descend
from treetop.train.task import TrainConfig

KEPT = ("indptr", "ids", "score", "own")  # what a ranking is made of


@dataclass(frozen=True, eq=False)
class _Kept:
    """The nodes that a level keeps for the training rows, and for the documents beside them."""

    rows: Ranking
    held_out: Ranking | None


def train_levels(
    dataset: Dataset, prepared: Prepared, tree: LabelTree, plans: Sequence[HeadPlan], learning: Learning,
    training: TrainConfig, job: Job, *, names: Sequence[str],
) -> tuple[list[Words], list[Rank]]:  # fmt: skip
    """Features, called `names`, and ranks of all levels; each level is trained in stages of its own."""
    job = sampled_job(dataset, job)
    features: list[Words] = []
    ranks: list[Any] = []
    kept: _Kept | None = None
    for t, plan in enumerate(plans):
        last = t == len(plans) - 1
        logger.info("level of %s nodes", f"{tree.sizes[t]:,}")
        blueprint = Blueprint([plan], flat(tree.sizes[0]), learning)
        if kept is not None:
            seen = None if kept.held_out is None else kept.held_out.padded(plan.keep)
            below = LabelTree((np.zeros(tree.sizes[t - 1], np.int32), tree.parents[t]))
            given, above = kept.rows.padded(plan.keep), ranks[-1] if isinstance(ranks[-1], Attention) else None
            blueprint = Blueprint([plan], below, learning, given=given, given_held_out=seen, above=above)
            prepared = prepared.with_features(Words.from_part(features[-1].to_part()))
        prepared = prepared.with_features(prepared.features.named(names[t]))
        data, data_job = (dataset, job) if last else (of_clusters(dataset, tree, t), over_clusters(job, tree, t))
        trained = train_network(
            data, prepared, prepared.learning(), blueprint, training, data_job, name=f"level-{t:02d}-train"
        )
        features.append(trained.features)
        ranks.append(trained.ranks[0])
        if not last:
            kept = _keep(prepared.with_features(trained.features), tree, t, ranks[-1], plans[t + 1].keep, job, kept)
    return features, ranks


def _keep(prepared: Prepared, tree: LabelTree, t: int, rank: Any, keep: int, job: Job, above: _Kept | None) -> _Kept:
    """The best nodes of a level below those kept on the one above; a stage."""
    features, moved = prepared.features.to(prepared.device), rank.to(prepared.device)
    level = Level("states", Descend.of(tree, t), moved, Join("sigmoid", "path") if t else Join("sigmoid"))

    def best(view: View, parents: Ranking | None) -> Ranking:
        return step(level, {"states": view}, parents, keep)

    def make() -> Part:
        rows = best(features.sequences(prepared.tokens), None if above is None else above.rows)
        return Part("stage.kept.1", {}, {name: getattr(rows, name) for name in KEPT})

    part = job.stage(f"level-{t:02d}-kept", partial(make))
    held_out = None
    if job.held_out is not None:
        view = features.sequences(features.tokenizer.encode(job.held_out.texts))
        held_out = best(view, None if above is None else above.held_out)
    return _Kept(Ranking(*(np.asarray(part.arrays[name]) for name in KEPT)), held_out)
