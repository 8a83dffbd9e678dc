"""DEPSL (WWW 2025, UniDEC's dual encoder alone): one encoder for texts and label texts, trained on label pools.

Features: transformer, mean of the last layer, L2-normalised. Labels: their texts. Tree: none. Shortlist: everything, or
approximate nearest labels if there are many. Rank: dual. Key idea: the multi-label reduction. The positives of a text
are neither all its labels nor one of them, but those in a pool of a few thousand labels; mini-batches are clusters of
similar texts, and hard negatives are mined with the encoder itself. The presets `dpr` and `ance` are its relatives: one
positive per text against the labels of a random mini-batch, without and with hard negatives.

Deviations: no projection of the embedding unless `dual.projection_dim` asks for one; ignored pairs are masked with
-inf; labels with the same text as a positive are ignored, and at prediction ties between them are broken by label
frequency.
"""

from __future__ import annotations

from dataclasses import dataclass

from treetop.assemble.dual.fit import DualPlan, fit_dual, forecast_dual
from treetop.assemble.dual.settings import DualEncoderConfig
from treetop.core.dataset import Dataset
from treetop.core.forecast import Forecast
from treetop.core.work import Job
from treetop.model import Model

GROUP = "dual encoders, full classifiers"
HOOKS = ("rows", "soft", "sample")  # places for augmentations


@dataclass(frozen=True, kw_only=True)
class Config(DualEncoderConfig):
    """Settings of `depsl`."""


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """Encoder, tokens and label vectors; label texts are read with every batch."""
    return forecast_dual(dataset, config, DualPlan.of(config, dataset))


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Train the encoder on pools of labels, then encode all labels once."""
    return fit_dual(dataset, config, DualPlan.of(config, dataset), job)
