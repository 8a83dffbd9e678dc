"""Which documents are held out of training, so that scores can be calibrated and fused on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, get_args

import numpy as np

from treetop.assemble.held_out.calibration import MIN_DOCUMENTS
from treetop.assemble.held_out.fusion import Aim
from treetop.assemble.held_out.own_documents import hold_out, own_documents
from treetop.core.dataset import Dataset, LabelSet
from treetop.core.errors import InputError, choose
from treetop.core.log import logger

FRACTION, MOST = 0.05, 5000  # fraction of the documents to hold out, and their maximum number
LEAST = 560  # documents to hold out at least: a hash chooses them, so that their number varies around this
MAX_FRACTION = 0.1  # if LEAST documents are a larger fraction, nothing is held out
SEED = 10**9  # added to the run's seed, so that other documents are chosen than by `data split` or for validation


class Split(NamedTuple):
    """Rows to train on, held-out documents, and the whole training data if the held-out documents are part of it."""

    train: Dataset
    held_out: Dataset
    everything: Dataset | None


@dataclass(frozen=True, eq=False)
class HoldOut:
    """Whether to calibrate at all, the aim of a learned fusion, and the held-out documents if the user gave them."""

    calibrate: bool = True
    aim: Aim = "balanced"
    given: Dataset | None = None  # None: a fraction of the training data

    def __post_init__(self) -> None:
        choose("aim", self.aim, get_args(Aim))
        if self.given is not None and not isinstance(self.given, Dataset):
            raise InputError(f"held_out: expected a Dataset, got {type(self.given).__name__}.")

    def changed(self, change: Callable[[Dataset], Dataset], labels: LabelSet) -> HoldOut:
        """The same with given documents changed, once their columns are those of `labels`."""
        return self if self.given is None else replace(self, given=change(self.given.align(labels)))

    @property
    def key(self) -> str:
        """Everything here that the model depends on, for its fingerprint."""
        if not self.calibrate:
            return "off"
        return self.aim if self.given is None else f"{self.aim}, {self.given.fingerprint}"

    def holds_out(self, dataset: Dataset) -> bool:
        """Whether documents of the training data are held out."""
        return self.calibrate and self.given is None and _fraction(dataset) <= MAX_FRACTION

    def split(self, dataset: Dataset, seed: int) -> Split | None:
        """Training rows and held-out documents; None if nothing is to be learned, or documents are too few for that."""
        if not self.calibrate:
            return None
        if self.given is not None:
            aligned = self.given.align(dataset.labels)
            rows = aligned.take(np.flatnonzero(aligned.documents))
            return Split(dataset, rows, None)
        if not self.holds_out(dataset):
            _log_reason(_too_few(dataset))
            return None
        kept, out = hold_out(dataset, _fraction(dataset), SEED + seed, MAX_FRACTION)
        if len(out) < MIN_DOCUMENTS:
            _log_reason(f"only {len(out):,} documents could be held out, {MIN_DOCUMENTS} are needed")
            return None
        return Split(dataset.take(kept), dataset.take(out), dataset)


OFF = HoldOut(calibrate=False)


def enough(given: Dataset | None) -> Dataset | None:
    """Held-out documents that a user gave, if they are enough to learn from; None: training documents do instead."""
    if not isinstance(given, Dataset) or int(given.documents.sum()) >= MIN_DOCUMENTS:
        return given
    logger.info(
        "%s: %s held-out documents are too few to learn probabilities from, %d are needed; training documents are used",
        given.name, f"{int(given.documents.sum()):,}", MIN_DOCUMENTS,
    )  # fmt: skip
    return None


def expected_size(dataset: Dataset) -> int:
    """About how many documents are held out by default; 0: there are too few."""
    fraction = _fraction(dataset)
    return int(fraction * int(dataset.documents.sum())) if fraction <= MAX_FRACTION else 0


def _fraction(dataset: Dataset) -> float:
    """Fraction of the documents to hold out; above MAX_FRACTION there are too few of them."""
    n = int(dataset.documents.sum())
    return min(MOST, max(FRACTION * n, LEAST)) / max(n, 1)


def _too_few(dataset: Dataset) -> str:
    """How many documents there are and would be needed: `folds.py` does with fewer, but trains several models."""
    own = own_documents(dataset)
    n, besides = int((dataset.documents & ~own).sum()), " besides those that are labels" if own.any() else ""
    return (
        f"{n:,} documents{besides} are too few. Recipes that train in seconds, and blend, need {MIN_DOCUMENTS}, "
        f"networks {int(LEAST / MAX_FRACTION):,}. Or give {MIN_DOCUMENTS} documents that are not trained on: as split "
        "valid (held_out= in Python), or later to `treetop calibrate`."
    )


def _log_reason(reason: str) -> None:
    logger.info("the model gets no probabilities: %s", reason)
