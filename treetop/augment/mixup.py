"""MixUp (ICLR 2018): a row's vector and targets are mixed with those of another row of the batch."""

from __future__ import annotations

from dataclasses import dataclass

from treetop.augment.offers import Offers
from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.work import Job
from treetop.network.samplers.mix import BatchMix

NAME = "mixup"


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of `mixup`."""

    alpha: float = setting(0.2, "mixing coefficient ~ Beta(alpha, alpha); small alpha: little mixing", low=1e-3)


def needs(config: Config) -> list[str]:
    """Mixed rows."""
    return ["mix"]


def mix(dataset: Dataset, config: Config, job: Job) -> BatchMix:
    """Partners from the batch."""
    return BatchMix(config.alpha, job.seed)


OFFERS = Offers(mix=mix)
