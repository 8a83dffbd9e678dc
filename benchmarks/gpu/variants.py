"""What else a trained model of a plan is looked at as: some of its members, one head, other scores, a blend."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from treetop.assemble.blend import blend
from treetop.assemble.linear.tree import Task, train_member
from treetop.core.dataset import Dataset
from treetop.core.types import Join
from treetop.core.work import Job
from treetop.labels.pifa import pifa
from treetop.partition.balanced import balanced
from treetop.rank.dual import Dual
from treetop.rank.text_map import unit
from treetop.recipes import xr_transformer
from treetop.training import fit


def variants_of(run: dict[str, Any]) -> bool:
    return any(run.get(name) for name in ("parts", "heads", "cosines", "duals", "rares", "joins", "blend"))


def variants(model: Any, run: dict[str, Any], train: Dataset) -> Iterator[tuple[str, Any]]:
    """(name, model) of what else a run asks for."""
    for name, members in run.get("parts", {}).items():
        yield name, dataclasses.replace(model, members=[model.members[m] for m in members], golden=())
    for transform, combine in run.get("joins", ()):
        *above, last = model.members[-1]
        member = [*above, dataclasses.replace(last, join=Join(transform, combine))]
        for name, members in ((f"{transform}, {combine}", [member]), (f"all, {transform}, {combine}", None)):
            held = members or [*model.members[:-1], member]
            yield f"last member's score: {name}", dataclasses.replace(model, members=held, golden=())
    for name in ("dual", "classifier") if run.get("heads") else ():
        yield f"{name} head", alone(model, name)
    if run.get("cosines"):
        yield "cosines of both heads", by_cosines(model, train)
    for share in run.get("duals", ()):
        yield f"dual head x {share}", weighed(model, share)
    for share in run.get("rares", ()):
        yield f"rare labels lifted, {share}", lifted(model, share)
    if "blend" in run:
        other = fit(run["blend"], train, seed=run.get("seed", 0))
        for how, times in (("average", 1), ("average", 2), ("average", 4), ("rank_average", 1)):
            name = f"with {run['blend']}, {how}" + (f", {times} to 1" if times > 1 else "")
            yield name, blend([model, other], [times, 1], how)


def alone(model: Any, name: str) -> Any:
    """The model searched by one of its heads."""
    rank = model.members[0][0].rank
    weight = np.zeros_like(rank.weight)
    weight[:, rank.place(name)] = rank.part(name)
    bias = rank.bias
    if name == "dual":  # labels without training texts have the other head's word in theirs
        weight[model.counts == 0] /= np.float32(rank.text[0])
        bias = np.zeros_like(bias)
    return placed(model, weight, bias)


def by_cosines(model: Any, train: Dataset) -> Any:
    """The model searched by the cosines of both heads at the dual one's scale (`search.classifier_score: cosine`)."""
    level = model.members[0][0]
    rank = level.rank
    first, second = rank.place("dual"), rank.place("classifier")
    query = np.asarray(model.views(train.texts.take(np.arange(1)), {})[level.view])[0]
    weight = rank.weight.copy()
    weight[:, second] = unit(weight[:, second]) * np.linalg.norm(query[first]) / np.linalg.norm(query[second])
    return placed(model, weight, np.zeros_like(rank.bias))


def weighed(model: Any, share: float) -> Any:
    """The model with its dual head's score counted `share` times as often (`search.dual_scale`)."""
    rank = model.members[0][0].rank
    slope = np.float32(rank.text[0] - 1.0)
    times = np.where(model.counts == 0, (share + slope) / (1.0 + slope), share).astype(np.float32)
    weight = rank.weight.copy()
    weight[:, rank.place("dual")] *= times[:, None]
    return placed(model, weight, rank.bias)


def lifted(model: Any, share: float) -> Any:
    """The model with `search.logit_adjustment`; labels without texts stay where they are."""
    rank = model.members[0][0].rank
    return placed(model, rank.weight, rank.bias - np.float32(share) * np.log1p(model.counts).astype(np.float32))


def placed(model: Any, weight: Any, bias: Any) -> Any:
    """The model with other label vectors."""
    level = model.members[0][0]
    members = [[dataclasses.replace(level, rank=Dual(weight, bias, widths=level.rank.widths))]]
    return dataclasses.replace(model, members=members, golden=())


def on_same_features(model: Any, train: Dataset) -> Any:
    """A model of one tree of linear rankers, as XR-Transformer's, on what the model's linear level reads."""
    config, view = xr_transformer.Config(), model.members[-1][-1].view
    (features,) = model.features.values()
    X = features.views(train.texts)[view]
    tree = balanced(pifa(X, train.Y), config.refined_tree, seed=0)
    levels = train_member(Task(X, train.Y), tree, view, config.ranker, job=Job(0), name="ranker")
    return dataclasses.replace(model, members=[levels], golden=())
