"""SimCSE (EMNLP 2021), supervised, as a baseline of UniDEC's authors: one label of each text against those of others.

Features: transformer, mean of the last layer, L2-normalised. Labels: their texts. Tree: none. Shortlist: everything, or
approximate nearest labels if there are many. Rank: dual. Key idea: contrastive learning with in-batch negatives only.
Of each text one label is drawn, which must be found among the labels drawn for the other texts of a random mini-batch
(softmax over cosines, temperature 0.05); nothing is clustered or mined. What `depsl` adds to this is what its pools are
worth. The unsupervised form prepares an encoder: `treetop adapt`.

Deviations: mean pooling without the training-time layer on the first token; no hard negatives, as there are no
contradictions; labels that a text has too, and labels with equal texts, are ignored instead of negatives.
"""

from __future__ import annotations

from dataclasses import dataclass

from treetop.assemble.dual.fit import DualPlan, fit_dual, forecast_dual
from treetop.assemble.dual.settings import DualEncoderConfig
from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.errors import ConfigError
from treetop.core.forecast import Forecast
from treetop.core.work import Job
from treetop.model import Model
from treetop.network.losses.settings import LossConfig
from treetop.network.pool_heads import DualConfig
from treetop.network.samplers.pools import PoolConfig

GROUP = "dual encoders, full classifiers"
HOOKS = ("rows", "soft", "sample")  # places for augmentations
IN_BATCH = PoolConfig(size=100_000, positives=1, hard_negatives=0, fill=False, clustered=False)


@dataclass(frozen=True, kw_only=True)
class Config(DualEncoderConfig):
    """Settings of `simcse`."""

    dual: DualConfig = setting(
        DualConfig(loss=LossConfig(kind="infonce", positive_set="one")),
        "dual-encoder head (label vectors from label text)",
    )
    pool: PoolConfig = setting(IN_BATCH, "labels of a mini-batch: those drawn for its texts, and no others")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pool.hard_negatives or self.pool.clustered or self.pool.fill or not self.pool.size:
            raise ConfigError(
                "pool: SimCSE has in-batch negatives only. Leave hard_negatives=0, clustered=false, fill=false and "
                "size above 0, or train depsl, which has the others."
            )


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """Encoder, tokens and label vectors; the labels of a mini-batch are read with it."""
    plan = DualPlan.of(config, dataset)
    return forecast_dual(dataset, config, plan.with_pool(plan.train.batch_size * max(1, config.pool.positives)))


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Train the encoder on mini-batches, then encode all labels once."""
    return fit_dual(dataset, config, DualPlan.of(config, dataset), job)
