"""Calibrate a trained model, or fuse its sources, on documents that it was not trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import numpy as np

from treetop.assemble.held_out.calibration import MIN_DOCUMENTS, learn_calibration
from treetop.assemble.held_out.emptied import emptied, leave_out
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

SHARED = 2  # so many golden inputs among the given texts show that it was trained on them; one may be a repeated text


def calibrated(model: Model, dataset: Dataset) -> Model:
    """The model with probabilities fitted on `dataset`, whose documents it was not trained on."""
    rows = _held_out(model, dataset)
    if model.fusion is not None and model.card.fused_on(dataset.fingerprint):
        raise InputError(
            f"{dataset.name}: the model's fusion was fitted on these documents, so its scores on them are too good. "
            "Give other documents."
        )
    ranking = model.rank_dataset(rows, DEPTH + rows.most_filtered)
    if model.fusion is not None:  # its score lifts rare labels, its `own` score is the probability without that
        ranking = Ranking(ranking.indptr, ranking.ids, ranking.own, ranking.own)
    rows, [ranking] = leave_out(emptied(rows, model.counts), rows, [ranking])
    judged = Judged.of([ranking], rows, _counts(model, rows), model.n_train)
    calibration = learn_calibration(judged, model.counts, np.diff(rows.Y.indptr))
    return replace(model, calibration=calibration, card=model.card.with_calibration(dataset.fingerprint))


def fitted_to_held_out(
    model: Model, dataset: Dataset, aim: Aim = "balanced", seed: int = 0, device: str = "cpu"
) -> Model:
    """The model with probabilities and, if it has several sources, a fusion, fitted on held-out documents."""
    on_device = model.to(device)
    fitted = calibrated(on_device, dataset) if model.fusion is None else fused(on_device, dataset, aim, seed)
    return replace(model, fusion=fitted.fusion, calibration=fitted.calibration)


def fused(model: Model, dataset: Dataset, aim: Aim = "balanced", seed: int = 0) -> Model:
    """The model with a fusion of its sources and with probabilities, both fitted on `dataset`.

    The calibration is fitted on cross-fitted scores: those that a fusion fitted on the other documents gives to each.
    """
    choose("aim", aim, get_args(Aim))
    rows = _held_out(model, dataset)
    fusion = model.fusion if model.fusion is not None else unfitted_fusion([(len(model.members), model.blend)])
    rows, lists = leave_out(emptied(rows, model.counts), rows, source_rankings(model, fusion, rows))
    judged = Judged.of(lists, rows, _counts(model, rows), model.n_train)
    learned = learn_fusion(judged, model.counts, model.n_train, rows.propensity, aim, seed)
    names = _source_names(model, fusion)
    for name, alone in zip(names, learned.sources, strict=True):
        logger.info("%s alone: P@1 %.2f, P@5 %.2f on held-out documents", name, 100 * alone.p1, 100 * alone.p5)
    logger.info(
        "fused (%s, rare labels lifted by %g): P@1 %.2f, P@5 %.2f", learned.name, learned.fusion.rarity.lift,
        100 * learned.quality.p1, 100 * learned.quality.p5,
    )  # fmt: skip
    pairs = replace(judged.pairs, score=learned.unseen[:, None])
    calibration = learn_calibration(replace(judged, pairs=pairs), model.counts, np.diff(rows.Y.indptr))
    model = replace(model, fusion=replace(fusion, scorer=learned.fusion), calibration=calibration)
    return model.with_golden(Texts.of([str(row["text"]) for row in model.golden])) if model.golden else model


def _source_names(model: Model, fusion: Fusion) -> list[str]:
    """Names of the sources in the log: a number, and the recipe if recipes differ."""
    recipes, names, start = model.card.recipes(len(model.members)), list[str](), 0
    for number, (n, _) in enumerate(fusion.sources, 1):
        names.append(f"source {number}" + (f" ({recipes[start]})" if len(set(recipes)) > 1 else ""))
        start += n
    return names


def unfitted_fusion(sources: Sequence[tuple[int, Blend]]) -> Fusion:
    """A fusion of these sources whose weights, all zero, are still to be fitted."""
    zeros = Logistic(np.zeros((2, len(sources), 1), np.float32), np.zeros(2 * len(sources) + 2, np.float32))
    return Fusion(zeros, tuple(sources))


def source_rankings(model: Model, fusion: Fusion, dataset: Dataset) -> list[Ranking]:
    """The ranking of the rows of `dataset` by each source of a fusion."""
    batches = [
        fusion.lists(model.member_rankings(views), model.weights)
        for views in model.batches(dataset.texts, dataset.features)
    ]
    return [Ranking.concat(parts) for parts in zip(*batches, strict=True)]


def check_unseen(model: Model, dataset: Dataset) -> None:
    """Refuse data the model was trained on: the same hash, or at least SHARED texts among the model's golden inputs."""
    golden = {str(row["text"]) for row in model.golden}
    shared = golden & {text[:LENGTH] for text in dataset.texts}
    if dataset.fingerprint == model.card.data.get("sha256") or len(shared) >= SHARED:
        raise InputError(
            f"{dataset.name}: the model was trained on rows of this data, so its scores on them say nothing about new "
            "texts. Hold rows out with `treetop data split`, train on the rest and give the held-out rows."
        )


def _held_out(model: Model, dataset: Dataset) -> Dataset:
    """The documents of `dataset`, whose first columns are the model's labels."""
    check_unseen(model, dataset)
    aligned = dataset.align(model.labels)
    rows = aligned.take(np.flatnonzero(aligned.documents))
    if len(rows) < MIN_DOCUMENTS:
        raise InputError(
            f"{dataset.name}: {len(rows):,} documents, but at least {MIN_DOCUMENTS} held-out ones are needed to "
            "calibrate scores. Give more documents."
        )
    return rows


def _counts(model: Model, rows: Dataset) -> np.ndarray:
    """Training texts per column of `rows`; 0 for labels the model does not know."""
    counts = np.zeros(rows.n_labels, np.int64)
    counts[: len(model.counts)] = model.counts
    return counts
