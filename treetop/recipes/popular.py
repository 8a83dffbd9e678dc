"""The most frequent labels, the same for every text.

Features none, tree flat, shortlist everything, rank popular. The lower bound for all other methods: on a data set with
a heavy head it looks better than it is, so read nDCG@10, PSP@5 and coverage as well as P@1.
"""

from __future__ import annotations

from dataclasses import dataclass

from treetop.core.dataset import Dataset
from treetop.core.forecast import PROCESS, Forecast, data_memory
from treetop.core.types import Level
from treetop.core.work import Job
from treetop.model import Model
from treetop.rank.popular import Popular
from treetop.shortlist.everything import Everything

GROUP = "baselines"
REFITS = True  # quick enough to train on all documents again, once scores are calibrated on held-out ones


@dataclass(frozen=True, kw_only=True)
class Config:
    """No settings."""


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """Little more than the data."""
    names = len(dataset.labels.names.blob) + len(dataset.labels.texts.blob)
    return Forecast(memory=PROCESS + data_memory(dataset), model=16.0 * dataset.n_labels + 2 * names, time=0.1)


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Count."""
    rank = Popular.fit(dataset.label_counts, int(dataset.documents.sum()))
    return Model.over(dataset, {}, [[Level("none", Everything(dataset.n_labels), rank)]])
