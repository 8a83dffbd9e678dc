"""A check of neural models: is a linear model that trains in seconds better on the same held-out documents?"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from treetop.assemble.char_ngrams import settle
from treetop.assemble.held_out.judged import Judged, positions
from treetop.core import registry
from treetop.core.dataset import Dataset
from treetop.core.log import logger
from treetop.core.work import Job
from treetop.model import Model
from treetop.predict.fuse.fuse import DEPTH

LINEAR = "xr_linear"
SECONDS = 120.0  # if its forecast is longer, it is not trained
DOCUMENTS = 2000  # held-out documents to compare on, at most


def warn_if_linear_is_better(recipe: str, model: Model, train: Dataset, held_out: Dataset, job: Job) -> None:
    """Warn if `xr_linear`, trained on the same rows, has a significantly higher P@1 on the held-out documents."""
    module = registry.find("recipe", LINEAR)
    rows = train.take(np.flatnonzero(train.documents))
    config = settle(module.Config(), rows)
    if recipe == LINEAR or module.forecast(rows, config).time > SECONDS:
        return
    started = time.monotonic()
    linear: Model = module.fit(rows, config, Job(job.seed, job.device))
    seconds = time.monotonic() - started
    documents = held_out.take(np.arange(min(len(held_out), DOCUMENTS)))
    ours, theirs = first_hits(model.to(job.device), documents), first_hits(linear, documents)
    gain = theirs - ours
    if gain.mean() > 2.0 * gain.std() / np.sqrt(len(gain)):
        logger.warning(
            "xr_linear, trained in %.0f s on the same documents, is better on the held-out ones: P@1 %.1f, against "
            "%.1f of %s. Train it, or fuse both: treetop fit blend --set sources=%s,xr_linear",
            seconds, 100 * theirs.mean(), 100 * ours.mean(), recipe, recipe,
        )  # fmt: skip


def first_hits(model: Model, dataset: Dataset) -> NDArray[np.float64]:
    """(documents,) 1 where the best label is right; labels that the filter excludes are skipped."""
    judged = Judged.of([model.rank_dataset(dataset, DEPTH)], dataset, model.counts, model.n_train)
    first = positions(judged.pairs, judged.pairs.score[:, 0]) < 1
    return np.bincount(judged.pairs.rows[first], judged.hit[first], len(dataset)).astype(np.float64)
