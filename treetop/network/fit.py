"""From texts and plans of heads to trained heads, in a resumable stage; and the levels they become."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from treetop.core import registry
from treetop.core.dataset import Dataset
from treetop.core.log import logger
from treetop.core.store import Part
from treetop.core.types import Combine, Join, LabelTree, Level, Rank
from treetop.core.work import Job
from treetop.network.build import Blueprint
from treetop.network.forecast import micro_batches
from treetop.network.head import HeadPlan
from treetop.network.init import Start, from_texts
from treetop.network.inputs import Cached, Encoded, Inputs
from treetop.network.network import Network, RowTargets
from treetop.network.prepare import Prepared
from treetop.network.vectors.parts import Blocks, Parts
from treetop.network.watch import Watched, watched
from treetop.shortlist.descend import Descend
from treetop.shortlist.everything import Everything
from treetop.tensors.devices import World
from treetop.train.batches import Order, Plan, Rows, split_off
from treetop.train.loop import train
from treetop.train.task import Result, TrainConfig


@dataclass(frozen=True, eq=False)
class Trained:
    """The trained features and the ranks of their heads; for composed vectors also the label-text blocks."""

    features: Any
    ranks: list[Any]  # `rank.head.Head`, or another rank
    blocks: Blocks
    label_texts: NDArray[np.float32] | None = None  # (labels, width)


def train_network(
    dataset: Dataset,
    prepared: Prepared,
    inputs: Inputs,
    blueprint: Blueprint,
    training: TrainConfig,
    job: Job,
    *,
    validation: float = 0.0,
    targets: RowTargets | None = None,
    name: str = "train",
) -> Trained:
    """Train the heads of a blueprint over the rows of `dataset`; one stage, with checkpoints inside.

    `targets` replace the data set's, where candidates are given in their order.
    """
    world = World.join(prepared.device)

    def make() -> Part:
        rows, held_out = cut(dataset, validation, job.seed)
        start = blueprint.start or _starts(dataset, prepared, inputs, blueprint, job.seed)
        if isinstance(inputs, Encoded):
            inputs.use_fast_layers()
        plan = plan_of(prepared, rows, training, job.seed, world)
        task = replace(blueprint, start=start).network(
            dataset,
            inputs,
            seed=job.seed,
            world=world,
            mix=job.mix,
            penalty=job.penalty,
            targets=targets,
            watched=_watched(dataset, prepared, inputs, blueprint, held_out, job),
            detach_steps=round(blueprint.learning.detach * training.epochs * plan.steps),
        )
        prepared.wait()
        fitted = _within_card(training, inputs, blueprint, plan)
        report(train(task, plan, fitted, world=world, work=job.work, name=name))
        return _as_part(prepared, task)

    return _trained(all_or_none(job, f"{name}ed", world, make), prepared, blueprint)


def _trained(part: Part, prepared: Prepared, blueprint: Blueprint) -> Trained:
    ranks = [registry.restore(part.parts[f"level-{t:02d}"], "rank") for t in range(len(blueprint.plans))]
    arrays = dict(part.arrays)
    label_texts = arrays.pop("label texts", None)
    return Trained(type(prepared.features).from_part(part.parts["encoder"]), ranks, arrays, label_texts)


def _within_card(training: TrainConfig, inputs: Inputs, blueprint: Blueprint, plan: Plan) -> TrainConfig:
    """As many micro-batches as the GPU's memory asks for."""
    if not isinstance(inputs, Encoded) or inputs.device.type != "cuda":
        return training
    low = blueprint.learning.descent is not None
    return micro_batches(training, inputs, blueprint.plans, rows=plan.rows, batch=plan.batch, low=low)


def _watched(
    dataset: Dataset, prepared: Prepared, inputs: Inputs, blueprint: Blueprint, held_out: Rows, job: Job
) -> Watched | None:
    """Documents to look at after every epoch; none where candidates are given for the training rows alone."""
    if blueprint.given is not None and blueprint.given_held_out is None:
        return None
    return watched(dataset, prepared, inputs, held_out, job, given=blueprint.given_held_out)


def _as_part(prepared: Prepared, task: Network) -> Part:
    parts = {f"level-{t:02d}": rank.to_part() for t, rank in enumerate(task.ranks())}
    arrays: dict[str, NDArray[Any]] = {}
    last = task.heads[-1].vectors
    if isinstance(last, Parts) and last.plan.text:
        arrays = {"label texts": last.part("text").cpu().numpy(), **last.blocks()}
    encoder = prepared.features.move(torch.device("cpu")).to_part()
    return Part("stage.trained.1", {}, arrays, {"encoder": encoder, **parts})


def _starts(
    dataset: Dataset, prepared: Prepared, inputs: Inputs, blueprint: Blueprint, seed: int
) -> Mapping[str, Start]:
    """The initial label vectors, by the current encoder on its device; texts of many windows are not read again."""
    features, learning = prepared.features, blueprint.learning
    features.encoder.to(prepared.device)
    features.device = prepared.device
    length = blueprint.plans[-1].length or 1.0
    known = inputs if isinstance(inputs, Cached) and prepared.tokens.rows is not None else None
    return from_texts(
        dataset, features, init=learning.init, scale=learning.init_scale, length=length, seed=seed, known=known
    )


def plan_of(prepared: Prepared, rows: Rows, training: TrainConfig, seed: int, world: World) -> Plan:
    """The batches of a training over these rows."""
    order: Order = "random" if prepared.features.encoder.packs else "length"
    return Plan(rows, min(training.batch_size, len(rows)), seed, order, prepared.tokens.lengths, world.rank, world.size)


def all_or_none(job: Job, stage: str, world: World, make: Callable[[], Part]) -> Part:
    """A stage of training: all processes train, or none."""
    if job.work is not None and not world.all(job.work.joinpath(stage).exists()):
        shutil.rmtree(job.work / stage, ignore_errors=True)
    return job.stage(stage, make)


def cut(dataset: Dataset, share: float, seed: int) -> tuple[Rows, Rows]:
    """(rows to train on, documents held out): label texts and synthetic rows always train; none outside the sample."""
    documents = np.flatnonzero(dataset.documents)
    others = np.flatnonzero(~dataset.documents)
    kept, held_out = split_off(documents, share, seed)
    rows = np.sort(np.concatenate([kept, others]))
    return rows[dataset.learned[rows]], held_out


def as_levels(
    views: Sequence[str],
    tree: LabelTree,
    ranks: Sequence[Rank],
    plans: Sequence[HeadPlan],
    combine: Combine = "path",
) -> list[Level]:
    """All clusters, then the children of the best, level by level; or all labels at once.

    Clusters are kept by their own probability, as in training, unless the whole path counts.
    """
    levels = []
    for t, (view, rank) in enumerate(zip(views, ranks, strict=True)):
        shortlist = Everything(tree.sizes[0]) if t == 0 else Descend.of(tree, t)
        alone = t == 0 or (combine != "path" and t + 1 < len(ranks))
        join = Join("sigmoid") if alone else Join("sigmoid", combine)
        levels.append(Level(view, shortlist, rank, join, plans[t + 1].keep if t + 1 < len(plans) else Level.beam))
    return levels


def report(result: Result) -> None:
    """What a run did, in one line."""
    speed = result.tokens / max(result.seconds, 1e-9)
    logger.info(
        "trained %d steps in %.1f s, %s tokens/s, peak %.1f GiB, last loss %.4f",
        result.steps,
        result.seconds,
        f"{speed:,.0f}",
        result.memory / 2**30,
        result.loss,
    )
