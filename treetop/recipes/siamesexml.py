"""SiameseXML (ICML 2021): a dual encoder trained on mini-batches of labels, then one refined vector per label.

Features: transformer, mean of the last layer, L2-normalised. Labels: their texts, then one free vector each. Tree:
none. Shortlist: everything, or approximate nearest labels if there are many. Rank: dual. Key idea: a label vector is
the embedding of the label's text plus a correction learned from its documents. In stage 1 mini-batches are drawn from
labels, each with one sampled document; in stage 2 the encoder is frozen and each label vector is refined from that
initialisation against the labels it is confused with, where a pair matches with probability
c * exp(d * (cosine - 1)). Score: cosine of the label vector plus a tenth of the label text's.

Deviations: stage 1 uses a softmax over the documents of the mini-batch (`paper-...`: that probability too, from which
a transformer learned little); the cosine of the label text has weight 0.1 (`paper-...`: the same as the label
vector's); a transformer instead of a bag of word vectors; hard negatives by exact search instead of HNSW; the losses of
the hardest negatives are averaged.
"""

from __future__ import annotations

from dataclasses import dataclass

from treetop.assemble.dual.fit import DualPlan, forecast_dual
from treetop.assemble.dual.stages import StagesConfig, fit_stages
from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.forecast import Forecast
from treetop.core.work import Job
from treetop.model import Model
from treetop.network.losses.settings import LossConfig
from treetop.network.pool_heads import ClassifierConfig, DualConfig
from treetop.network.samplers.pools import PoolConfig
from treetop.train.task import TrainConfig, warmed_up

GROUP = "dual encoders, full classifiers"
HOOKS = ("rows", "soft", "sample")  # places for augmentations
# Only the direction from labels to documents counts.
FIRST = LossConfig(positive_set="one", symmetric=True, symmetric_weight=1.0)


@dataclass(frozen=True, kw_only=True)
class Config(StagesConfig):
    """Settings of `siamesexml`."""

    dual: DualConfig = setting(DualConfig(loss=FIRST), "dual-encoder head of stage 1")
    classifier: ClassifierConfig = setting(
        ClassifierConfig(
            cosine=True,
            bias=False,
            dropout=0.5,
            loss=LossConfig(kind="kprob", hard_negatives=50, kprob_c=0.75, sharpness=3.0, min_loss=0.05),
        ),
        "classifier head of stage 2 (free label vectors)",
    )
    pool: PoolConfig = setting(
        PoolConfig(queries="labels", size=1024, positives=1, hard_negatives=0, clustered=False),
        "mini-batches and label pools of stage 1",
    )
    train: TrainConfig = setting(warmed_up(60, 1024), "training loop of stage 1, over labels")
    second_train: TrainConfig = setting(warmed_up(3, 1024), "training loop of stage 2")


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """As for other dual encoders; the second stage reads no texts."""
    return forecast_dual(dataset, config, DualPlan.of(config, dataset, config.classifier, config.label_optimizer))


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """The encoder first, then label vectors on its frozen vectors."""
    return fit_stages(dataset, config, job)
