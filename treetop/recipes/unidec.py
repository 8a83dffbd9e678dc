"""UniDEC (WWW 2025): a dual encoder and a classifier on one shared encoder, trained together on label pools.

Features: transformer, mean of the last layer. Labels: their texts, and one free vector each. Tree: none. Shortlist:
everything, or approximate nearest labels if there are many. Rank: dual. Key idea: both heads share one mini-batch, a
cluster of texts with a pool of a few thousand labels (some positives of each text, then hard negatives), on which each
head has a multi-class loss; the cost depends on the pool and not on the number of labels. Score: the sum of both heads,
hence one search over concatenated vectors.

Deviations: label vectors are initialised from label text and have a bias; no projections between encoder and heads
unless asked for; the classifier's score is its logit as in training (`search.classifier_score`; the paper: cosines, as
in the presets `paper-...`), and the dual encoder's cosine has about a third of its training scale. With
`classifier.labels: all` the classifier is trained on all labels with BCE, as in `renee`, with `classifier.label_memory:
low` at 2 bytes per parameter. With `classifier.offload: true` label vectors and optimiser state stay in pinned host
memory, where the GPU reads and writes the rows of a pool with the same kernels.
"""

from __future__ import annotations

from dataclasses import dataclass

from treetop.assemble.dual.fit import DualPlan, fit_dual, forecast_dual
from treetop.assemble.dual.settings import SearchConfig, TwoHeadConfig
from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.forecast import Forecast
from treetop.core.work import Job
from treetop.model import Model
from treetop.network.losses.settings import LossConfig
from treetop.network.pool_heads import ClassifierConfig

GROUP = "dual encoders, full classifiers"
HOOKS = ("rows", "soft", "sample")  # places for augmentations
TUNES = {  # settings that `treetop tune` tries
    "train.epochs": [10.0, 20.0, 30.0],
    "encoder_optimizer.lr": [0.0001, 0.0002, 0.0004],
    "head_optimizer.lr": [0.0002, 0.0004, 0.002, 0.005],
    "classifier.dropout": [0.0, 0.1, 0.3],
}


@dataclass(frozen=True, kw_only=True)
class Config(TwoHeadConfig):
    """Settings of `unidec`."""

    classifier: ClassifierConfig = setting(
        ClassifierConfig(embedding_norm=10.0, loss=LossConfig(bce_weight=1.0, bce_reduction="sum")),
        "classifier head (free label vectors)",
    )
    search: SearchConfig = setting(SearchConfig(dual_scale=7.0), "label search and score fusion")


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """Encoder, tokens and label vectors with their states; label texts are read with every batch."""
    return forecast_dual(dataset, config, _plan(dataset, config))


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Train encoder and heads on the same pools, then join both heads' label vectors."""
    return fit_dual(dataset, config, _plan(dataset, config), job)


def _plan(dataset: Dataset, config: Config) -> DualPlan:
    """Both heads on the same pools."""
    return DualPlan.of(config, dataset, config.classifier, config.label_optimizer)
