"""Label texts as additional training texts, with the labels visited by a random walk as soft targets.

A walk with restart goes from a label to one of its texts and on to one of that text's labels; a target is the number of
visits divided by that of the most visited label. It reaches labels that never share a text with the first.
"""

from __future__ import annotations

from dataclasses import dataclass

from treetop.augment.label_texts import RowsConfig, added_rows, needs_of, with_label_texts
from treetop.augment.offers import Offers
from treetop.core.dataset import Dataset
from treetop.core.work import Job
from treetop.labels.graph import WalkConfig, counted, walk_shares

NAME = "random_walk"


@dataclass(frozen=True, kw_only=True)
class Config(WalkConfig, RowsConfig):
    """Settings of `random_walk`."""


def needs(config: Config) -> list[str]:
    """Rows with soft targets."""
    return needs_of(config, "soft")


def rows(dataset: Dataset, config: Config, job: Job) -> Dataset:
    """The data set with label texts as rows."""
    return with_label_texts(dataset, walk_shares(counted(dataset), config, seed=job.seed), config, NAME, job.seed)


OFFERS = Offers(rows=rows, added=added_rows)
