"""Label texts as additional training texts, each with its own label only (Renee's augmentation, Gandalf's Z')."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from treetop.augment.label_texts import RowsConfig, added_rows, needs_of, with_label_texts
from treetop.augment.offers import Offers
from treetop.core.dataset import Dataset
from treetop.core.work import Job

NAME = "identity"


@dataclass(frozen=True, kw_only=True)
class Config(RowsConfig):
    """Settings of `identity`."""


def needs(config: Config) -> list[str]:
    """The hooks it needs."""
    return needs_of(config)


def rows(dataset: Dataset, config: Config, job: Job) -> Dataset:
    """The data set with label texts as additional rows."""
    targets = sparse.identity(dataset.n_labels, np.float32, format="csr")
    return with_label_texts(dataset, targets, config, NAME, job.seed)


OFFERS = Offers(rows=rows, added=added_rows)
