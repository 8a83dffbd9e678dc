"""DEXML (ICLR 2024): a dual encoder trained on all labels in every step, with a decoupled softmax.

Features: transformer, mean of the last layer, L2-normalised. Labels: their texts. Tree: none. Shortlist: everything, or
approximate nearest labels if there are many. Rank: dual. Key idea: no negative sampling. All label texts are encoded
with every mini-batch (in parts, with gradient caching, so memory does not grow with their number), and each positive
competes with the negatives only (decoupled softmax), or all labels compete for the top k places (SoftTop-k,
`dual.loss.kind: soft_topk`). With `pool.size` above 0 it is trained on a shortlist: the labels of the mini-batch and
hard negatives.

Deviations: one process holds all similarities of a mini-batch; mean pooling; cosines throughout (the paper does not
normalise on two data sets).
"""

from __future__ import annotations

from dataclasses import dataclass

from treetop.assemble.dual.fit import DualPlan, fit_dual, forecast_dual
from treetop.assemble.dual.settings import DualEncoderConfig
from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.forecast import Forecast
from treetop.core.work import Job
from treetop.model import Model
from treetop.network.losses.settings import LossConfig
from treetop.network.pool_heads import DualConfig
from treetop.network.samplers.pools import PoolConfig

GROUP = "dual encoders, full classifiers"
HOOKS = ("rows", "soft", "sample")  # places for augmentations


@dataclass(frozen=True, kw_only=True)
class Config(DualEncoderConfig):
    """Settings of `dexml`."""

    dual: DualConfig = setting(
        DualConfig(loss=LossConfig(positive_set="all")), "dual-encoder head (label vectors from label text)"
    )
    pool: PoolConfig = setting(
        PoolConfig(size=0, positives=0, hard_negatives=0, clustered=False),
        "labels scored per mini-batch: all (size 0), or a pool",
    )


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """Encoder, tokens and label vectors; all label texts are read with every batch."""
    return forecast_dual(dataset, config, DualPlan.of(config, dataset))


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Train the encoder on all labels, then encode them once more."""
    return fit_dual(dataset, config, DualPlan.of(config, dataset), job)
