"""Label-MixUp (KDD 2024): a text's vector and targets are mixed with those of the text of one of its labels."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from treetop.assemble.label_rows import excluded_labels, with_rows_of
from treetop.augment.label_texts import usable
from treetop.augment.offers import Offers
from treetop.core.config import setting
from treetop.core.dataset import LABEL_TEXT, Dataset
from treetop.core.work import Job
from treetop.network.samplers.mix import LabelMix

NAME = "label_mixup"


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of `label_mixup`."""

    alpha: float = setting(0.2, "mixing coefficient ~ Beta(alpha, alpha); small alpha: little mixing", low=1e-3)


def needs(config: Config) -> list[str]:
    """Mixed rows, and label texts that are read but not trained on by themselves."""
    return ["rows", "sample", "mix"]


def added(dataset: Dataset, config: Config) -> float:
    """One row per label text."""
    return dataset.n_labels


def rows(dataset: Dataset, config: Config, job: Job) -> Dataset:
    """The data set followed by label texts, which are outside the sample."""
    excluded = excluded_labels(dataset)
    labels, n = usable(dataset, excluded, NAME), len(dataset)
    sample = np.ones(n, bool) if dataset.sample is None else dataset.sample
    extended = with_rows_of(replace(dataset, sample=sample), labels, excluded)
    return replace(extended, sample=np.concatenate([sample, np.zeros(len(labels), bool)]))


def mix(dataset: Dataset, config: Config, job: Job) -> LabelMix:
    """Partners are those label texts."""
    row = np.full(dataset.n_labels, -1, np.int64)
    if dataset.sample is not None and dataset.roles is not None:  # the rows made above: nobody else makes such
        mine = np.flatnonzero((dataset.roles == LABEL_TEXT) & ~dataset.sample)
        row[dataset.Y[mine].indices] = mine
    return LabelMix(config.alpha, job.seed, dataset.Y, row)


OFFERS = Offers(rows=rows, mix=mix, added=added)
