"""A trained model gets a fusion of its sources, or probabilities, from documents that its training did not see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import numpy as np

from treetop.assemble.held_out.calibration import FEWEST, learn_calibration
from treetop.assemble.held_out.fusion import Aim, learn_fusion
from treetop.assemble.held_out.judged import Judged
from treetop.core.dataset import Dataset
from treetop.core.errors import InputError, choose
from treetop.core.golden import LENGTH
from treetop.core.log import logger
from treetop.core.texts import Texts
from treetop.core.types import Ranking
from treetop.model import Model
from treetop.predict.blend import Blend
from treetop.predict.fuse.fuse import DEPTH, Fusion
from treetop.predict.fuse.logistic import Logistic

SHARED = 2  # golden inputs among the given texts; a single one may be a text that occurs twice


def calibrated(model: Model, dataset: Dataset) -> Model:
    """The model with probabilities learnt on `dataset`, whose documents it was not trained on."""
    rows = _held_out(model, dataset)
    if model.fusion is not None and model.card.learnt_from(dataset.fingerprint):
        raise InputError(
            f"{dataset.name}: the model's fusion was learnt on these documents, and its probabilities with it, so that "
            "they can teach it nothing more. Give other documents."
        )
    most = (
        0
        if rows.filter_pairs is None or not len(rows.filter_pairs)
        else int(np.bincount(rows.filter_pairs[:, 0]).max())
    )
    ranking = model.rank_dataset(rows, DEPTH + most)
    if model.fusion is not None:  # the ranking lifts rare labels; probabilities come before that
        ranking = Ranking(ranking.indptr, ranking.ids, ranking.own, ranking.own)
    judged = Judged.of([ranking], rows, _counts(model, rows), model.n_train)
    calibration = learn_calibration(judged, model.counts, np.diff(rows.Y.indptr))
    return replace(model, calibration=calibration)


def taught(model: Model, dataset: Dataset, aim: Aim = "balanced", seed: int = 0, device: str = "cpu") -> Model:
    """The model with what is learnt on held-out documents: probabilities, and a fusion where it has several sources."""
    there = model.to(device)
    learnt = calibrated(there, dataset) if model.fusion is None else fused(there, dataset, aim, seed)
    return replace(model, fusion=learnt.fusion, calibration=learnt.calibration)


def fused(model: Model, dataset: Dataset, aim: Aim = "balanced", seed: int = 0) -> Model:
    """The model with a fusion of its sources and probabilities learnt on `dataset`.

    Probabilities are learnt from what a fusion learnt on other documents says of each, so that none counts twice.
    """
    choose("aim", aim, get_args(Aim))
    rows = _held_out(model, dataset)
    fusion = model.fusion if model.fusion is not None else provisional([(len(model.members), model.blend)])
    lists = source_rankings(model, fusion, rows)
    judged = Judged.of(lists, rows, _counts(model, rows), model.n_train)
    learnt = learn_fusion(judged, model.counts, model.n_train, rows.propensity, aim, seed)
    names = _source_names(model, fusion)
    for name, alone in zip(names, learnt.sources, strict=True):
        logger.info("%s alone: P@1 %.2f, P@5 %.2f on held-out documents", name, 100 * alone.p1, 100 * alone.p5)
    logger.info(
        "fused (%s, rare labels lifted by %g): P@1 %.2f, P@5 %.2f", learnt.name, learnt.fusion.rarity.lift,
        100 * learnt.quality.p1, 100 * learnt.quality.p5,
    )  # fmt: skip
    pairs = replace(judged.pairs, score=learnt.unseen[:, None])
    calibration = learn_calibration(replace(judged, pairs=pairs), model.counts, np.diff(rows.Y.indptr))
    model = replace(model, fusion=replace(fusion, scorer=learnt.fusion), calibration=calibration)
    return model.with_golden(Texts.of([str(row["text"]) for row in model.golden])) if model.golden else model


def _source_names(model: Model, fusion: Fusion) -> list[str]:
    """What the log calls each source: its place, and its recipe where they differ."""
    recipes, names, start = model.card.recipes(len(model.members)), list[str](), 0
    for number, (n, _) in enumerate(fusion.sources, 1):
        names.append(f"source {number}" + (f" ({recipes[start]})" if len(set(recipes)) > 1 else ""))
        start += n
    return names


def provisional(sources: Sequence[tuple[int, Blend]]) -> Fusion:
    """A fusion that has learnt nothing yet."""
    nothing = Logistic(np.zeros((2, len(sources), 1), np.float32), np.zeros(2 * len(sources) + 2, np.float32))
    return Fusion(nothing, tuple(sources))


def source_rankings(model: Model, fusion: Fusion, dataset: Dataset) -> list[Ranking]:
    """What each source of a fusion says of the rows of `dataset`."""
    batches = [
        fusion.lists(model.member_rankings(views), model.weights)
        for views in model.batches(dataset.texts, dataset.features)
    ]
    return [Ranking.concat(parts) for parts in zip(*batches, strict=True)]


def check_unseen(model: Model, dataset: Dataset) -> None:
    """Refuse data that hold rows of the training: the same data, or two texts that are golden inputs of the model."""
    golden = {str(row["text"]) for row in model.golden}
    shared = golden & {text[:LENGTH] for text in dataset.texts}
    if dataset.fingerprint == model.card.data.get("sha256") or len(shared) >= SHARED:
        raise InputError(
            f"{dataset.name}: the model was trained on rows of this data, so that its scores on them say nothing about "
            "new ones. Hold rows out with `treetop data split`, train on the rest, and give those."
        )


def _held_out(model: Model, dataset: Dataset) -> Dataset:
    """The documents of `dataset`, its first columns those of the model."""
    check_unseen(model, dataset)
    aligned = dataset.align(model.labels)
    rows = aligned.take(np.flatnonzero(aligned.documents))
    if len(rows) < FEWEST:
        raise InputError(
            f"{dataset.name}: {len(rows):,} documents, at least {FEWEST} held-out ones are needed to learn what scores "
            "mean. Give more documents."
        )
    return rows


def _counts(model: Model, rows: Dataset) -> np.ndarray:
    """Training texts per column of `rows`; 0 for labels the model does not know."""
    counts = np.zeros(rows.n_labels, np.int64)
    counts[: len(model.counts)] = model.counts
    return counts
