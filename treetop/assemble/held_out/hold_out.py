"""Which documents are kept out of training, so that scores can be given a meaning on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, get_args

import numpy as np

from treetop.assemble.held_out.calibration import FEWEST
from treetop.assemble.held_out.fusion import Aim
from treetop.core.dataset import Dataset
from treetop.core.errors import InputError, choose
from treetop.core.log import logger
from treetop.data.split import holdout

SHARE, MOST = 0.05, 5000  # of the documents that are held out, and their largest number
LEAST = 560  # held out at least: a hash hits FEWEST only about
LARGEST = 0.1  # share above which nothing is held out
SEED = 10**9  # added to a run's seed: `data split` and validation choose by the same hash, under seeds of their own


class Split(NamedTuple):
    """Rows to train on, documents that are held out, and both together where both are from the training data."""

    train: Dataset
    held_out: Dataset
    everything: Dataset | None


@dataclass(frozen=True, eq=False)
class HoldOut:
    """What a user asks for: no probabilities at all, or a ranking that serves `aim`, learnt on which documents."""

    calibrate: bool = True
    aim: Aim = "balanced"
    given: Dataset | None = None  # None: a share of the training data

    def __post_init__(self) -> None:
        choose("aim", self.aim, get_args(Aim))
        if self.given is not None and not isinstance(self.given, Dataset):
            raise InputError(f"held_out: expected a Dataset, got {type(self.given).__name__}.")

    @property
    def key(self) -> str:
        """What of it decides a model."""
        if not self.calibrate:
            return "off"
        return self.aim if self.given is None else f"{self.aim}, {self.given.fingerprint}"

    def holds_out(self, dataset: Dataset) -> bool:
        """Whether documents of the training data are held out."""
        return self.calibrate and self.given is None and _share(dataset) <= LARGEST

    def split(self, dataset: Dataset, seed: int) -> Split | None:
        """The parts; None where nothing is to be learnt, or too little is there to learn from."""
        if not self.calibrate:
            return None
        if self.given is not None:
            aligned = self.given.align(dataset.labels)
            rows = aligned.take(np.flatnonzero(aligned.documents))
            if len(rows) < FEWEST:
                _say_why(f"{len(rows):,} held-out documents, {FEWEST} are needed")
                return None
            return Split(dataset, rows, None)
        if not self.holds_out(dataset):
            n = int(dataset.documents.sum())
            _say_why(f"{n:,} documents are too few to hold some out, {int(LEAST / LARGEST):,} are needed")
            return None
        kept, out = holdout(dataset, _share(dataset), SEED + seed)
        if len(out) < FEWEST:
            _say_why(f"only {len(out):,} documents could be held out, {FEWEST} are needed")
            return None
        return Split(dataset.take(kept), dataset.take(out), dataset)


OFF = HoldOut(calibrate=False)


def expected_size(dataset: Dataset) -> int:
    """About how many documents are held out by default; 0: too few are there."""
    share = _share(dataset)
    return int(share * int(dataset.documents.sum())) if share <= LARGEST else 0


def _share(dataset: Dataset) -> float:
    """Of the documents that are to be held out; more than LARGEST: there are too few."""
    n = int(dataset.documents.sum())
    return min(MOST, max(SHARE * n, LEAST)) / max(n, 1)


def _say_why(reason: str) -> None:
    logger.info("scores without probabilities: %s", reason)
