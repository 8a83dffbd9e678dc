"""DEXML (ICLR 2024): a dual encoder whose every step sees all labels, with a softmax that leaves positives apart.

Features: transformer, the mean of the last layer at length 1. Labels: their texts. Tree: none. Shortlist: everything,
or near ones where there are many. Rank: dual. The own idea is to need no negatives: all label texts are encoded with
every batch (read in parts, vectors first and gradients then, so memory does not follow their number), and each positive
competes with the negatives only (decoupled softmax), or the positives with a soft threshold for `top` places
(`dual.loss.kind: soft_topk`). With `pool.size` above 0 it works on a shortlist instead: labels of the batch and hard
negatives.

Deviations: one process holds all similarities of a batch; mean pooling; cosines throughout (the paper leaves vectors
as they are on two sets).
"""

from __future__ import annotations

from dataclasses import dataclass

from treetop.assemble.tower_fit import fit_towers, forecast_towers
from treetop.assemble.tower_heads import ClassifierConfig, DualConfig, TowersConfig
from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.forecast import Forecast
from treetop.core.work import Job
from treetop.model import Model
from treetop.network.losses.settings import LossConfig
from treetop.network.samplers.pools import PoolConfig

GROUP = "dual encoders, full classifiers"
HOOKS = ("rows", "soft", "sample")  # places for augmentations


@dataclass(frozen=True, kw_only=True)
class Config(TowersConfig):
    """Settings of `dexml`."""

    dual: DualConfig = setting(DualConfig(loss=LossConfig(pick="all")), "the head that reads label texts")
    classifier: ClassifierConfig = setting(ClassifierConfig(weight=0.0), "a head with free label vectors: off")
    pool: PoolConfig = setting(
        PoolConfig(size=0, positives=0, negatives=0, clustered=False), "all labels, or how many of them meet in a batch"
    )


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """Encoder, tokens and label vectors; all label texts are read with every batch."""
    return forecast_towers(dataset, config)


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Train the encoder on all labels, then encode them once more."""
    return fit_towers(dataset, config, job)
