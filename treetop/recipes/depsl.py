"""DEPSL (UniDEC's dual encoder alone): one encoder for texts and label texts, trained on pools of some labels.

Features: transformer, the mean of the last layer at length 1. Labels: their texts. Tree: none. Shortlist: everything,
or near ones where there are many. Rank: dual. The own idea is the reduction: neither all labels of a text
nor one of them, but those that a pool of a few thousand labels happens to hold, with clusters of texts as batches and
hard negatives found by the encoder itself. The presets `dpr` and `ance` are its neighbours: one label a text against
the labels of a random batch, without and with hard negatives.

Deviations: no layer on the encoder's vector unless `dual.dimension` asks for one; cosines are masked by -inf; labels
with the text of a positive count for nothing, and are told apart in the end by how often they occur.
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
