"""Few documents: a fusion and probabilities from answers for all of them, each by a model that was not trained on it.

With fewer documents than a hold-out asks for, every fifth of them is answered by a model trained on the others: no
document is lost, and all of them teach. What is learned is kept for the model trained on all (stacking, Wolpert 1992).
The labels of a fold are columns of their own: a label is as frequent as it is among the documents of that fold's model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from treetop.assemble.held_out.calibration import MIN_DOCUMENTS, learn_calibration
from treetop.assemble.held_out.emptied import emptied, leave_out
from treetop.assemble.held_out.fusion import learn_fusion
from treetop.assemble.held_out.hold_out import expected_size
from treetop.assemble.held_out.judged import Judged
from treetop.assemble.held_out.own_documents import own_documents
from treetop.assemble.held_out.scores import source_rankings
from treetop.core.dataset import Dataset, Ints
from treetop.core.errors import InputError
from treetop.core.log import logger, quiet
from treetop.core.work import Job
from treetop.data.split import places
from treetop.model import Model
from treetop.predict.fuse.fuse import DEPTH
from treetop.predict.fuse.pairs import Pairs

FOLDS = 5
SEED = 3 * 10**9  # added to the run's seed: other documents than those that `fit` holds out or trials are validated on
Fit = Callable[[Dataset, Job], Model]


class Answers(NamedTuple):
    """What models that were not trained on some documents say of them."""

    judged: Judged
    counts: Ints  # training texts of the columns of `judged`
    positives: Ints  # true labels of each document

    @classmethod
    def concat(cls, parts: Sequence[Answers]) -> Answers:
        """Those of several models, whose labels become different columns."""
        starts = np.cumsum([0, *(len(part.counts) for part in parts)])
        pairs = [
            replace(part.judged.pairs, ids=(part.judged.pairs.ids + start).astype(np.int32))
            for part, start in zip(parts, starts[:-1], strict=True)
        ]
        lengths = np.concatenate([np.diff(each.indptr) for each in pairs])
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        joined = Pairs(
            indptr,
            *(np.concatenate([vars(each)[name] for each in pairs]) for name in ("ids", "score", "found", "best")),
        )
        hit, weight, gain = (
            np.concatenate([vars(part.judged)[name] for part in parts]) for name in ("hit", "weight", "gain")
        )
        counts, positives = (np.concatenate([part[i] for part in parts]) for i in (1, 2))
        return cls(Judged(joined, hit, weight, gain), counts, positives)


def may_fold(dataset: Dataset) -> bool:
    """Whether there are too few documents to hold any out, and enough for folds."""
    return not expected_size(dataset) and int((dataset.documents & ~own_documents(dataset)).sum()) >= MIN_DOCUMENTS


def fitted_by_folds(model: Model, fit: Fit, dataset: Dataset, job: Job, seconds: float) -> Model | None:
    """A model of all documents with the fusion and the probabilities that models of folds teach.

    `fit` trains one as `model` was trained, in about `seconds`. None if the time budget leaves no room for that.
    """
    if FOLDS * seconds > job.ends - time.monotonic():
        logger.warning("no time for %d models of parts of the documents; the model gets no probabilities", FOLDS)
        return None
    parts = []
    for number, (kept, out) in enumerate(_folds(dataset, job.seed)):
        with quiet():
            part = fit(dataset.take(kept), job.within(f"fold-{number}"))
        parts.append(answers(part.to(job.device), dataset.take(out)))
        logger.info("documents answered by models trained on others: %d of %d parts", number + 1, FOLDS)
    found = Answers.concat(parts)
    if len(found.positives) < MIN_DOCUMENTS:
        logger.info(
            "the model gets no probabilities: %d documents have labels that other documents have, too; %d are needed",
            len(found.positives),
            MIN_DOCUMENTS,
        )
        return None
    try:
        return _taught(model, found, dataset, job)
    except InputError as error:  # the model itself is sound
        logger.warning("scores without probabilities: %s", error)
        return None


def answers(model: Model, documents: Dataset) -> Answers:
    """Of the sources of a model, or of its ranking; labels and documents that say nothing about new ones left out."""
    if model.fusion is None:
        rankings = [model.rank_dataset(documents, DEPTH + documents.most_filtered)]
    else:
        rankings = source_rankings(model, model.fusion, documents)
    rows, rankings = leave_out(emptied(documents, model.counts), documents, rankings)
    return Answers(Judged.of(rankings, rows, model.counts, model.n_train), model.counts, np.diff(rows.Y.indptr))


def _taught(model: Model, found: Answers, dataset: Dataset, job: Job) -> Model:
    judged, counts, positives = found
    if model.fusion is None:
        return replace(model, calibration=learn_calibration(judged, counts, positives))
    learned = learn_fusion(judged, counts, model.n_train, dataset.propensity, job.aim, job.seed)
    logger.info(
        "fused (%s, rare labels lifted by %g): P@1 %.2f, P@5 %.2f; best alone: P@1 %.2f",
        learned.name, learned.fusion.rarity.lift, 100 * learned.quality.p1, 100 * learned.quality.p5,
        100 * max(source.p1 for source in learned.sources),
    )  # fmt: skip
    unseen = replace(judged, pairs=replace(judged.pairs, score=learned.unseen[:, None]))
    calibration = learn_calibration(unseen, counts, positives)
    return replace(model, fusion=replace(model.fusion, scorer=learned.fusion), calibration=calibration)


def _folds(dataset: Dataset, seed: int) -> list[tuple[Ints, Ints]]:
    """(rows to train on, documents to answer) of each fold; equal texts are never on both sides."""
    place = places(dataset, SEED + seed)
    own = own_documents(dataset)
    if own.any():  # a label's own document, and texts equal to it, are trained on always
        place[np.isin(place, place[own])] = np.inf
    found = []
    for number in range(FOLDS):
        chosen = (place >= number / FOLDS) & (place < (number + 1) / FOLDS)
        out = np.flatnonzero(chosen & dataset.documents)
        if len(out) and (dataset.documents & ~chosen).any():
            found.append((np.flatnonzero(~chosen), out))
    return found
