"""NGAME (WSDM 2023): a dual encoder trained on mini-batches of similar texts, then a classifier; scores are fused.

Features: transformer, mean of the last layer, L2-normalised. Labels: their texts, then one free vector each. Tree:
none. Shortlist: everything, or approximate nearest labels if there are many. Rank: dual (cosine of the label vector
plus a tenth of the label text's), or with `fusion_weight` a small decision tree over both. Key idea: negative-aware
mini-batches. They are built from clusters of similar texts (small at first, then doubling in size), so that the labels
of one text are hard negatives of another and no search is needed. One positive per text is sampled and contrasted with
the negatives of the mini-batch. Stage 2 freezes the encoder and refines label vectors initialised from the label texts.

Deviations: both stages use a softmax over the labels of the mini-batch; the triplet loss (`paper-...`) is misled by
missing labels when mini-batches consist of similar texts. Weights of violating negatives are normalised to sum to 1
instead of being divided by their number; hard negatives of stage 2 are mined with the label vectors themselves, by
exact search; scores are added with fixed weights unless `fusion_weight` asks for the tree.
"""

from __future__ import annotations

from dataclasses import dataclass

from treetop.assemble.dual.fit import DualPlan, forecast_dual
from treetop.assemble.dual.stages import StagesConfig, fit_stages
from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.errors import ConfigError
from treetop.core.forecast import Forecast
from treetop.core.work import Job
from treetop.model import Model
from treetop.network.losses.settings import LossConfig
from treetop.network.pool_heads import ClassifierConfig, DualConfig
from treetop.network.samplers.pools import PoolConfig
from treetop.train.task import TrainConfig, warmed_up

GROUP = "dual encoders, full classifiers"
HOOKS = ("rows", "soft", "sample")  # places for augmentations
FIRST = LossConfig(kind="decoupled", positive_set="one")


@dataclass(frozen=True, kw_only=True)
class Config(StagesConfig):
    """Settings of `ngame`."""

    dual: DualConfig = setting(DualConfig(loss=FIRST), "dual-encoder head of stage 1")
    classifier: ClassifierConfig = setting(
        ClassifierConfig(cosine=True, bias=False, dropout=0.5, scale=20.0),
        "classifier head of stage 2 (free label vectors)",
    )
    pool: PoolConfig = setting(
        PoolConfig(
            size=1024, positives=1, hard_negatives=0, mine_from=2, mine_every=2, cluster_size=8, curriculum=(4, 8, 12)
        ),
        "mini-batches and label pools of stage 1",
    )
    second_train: TrainConfig = setting(warmed_up(5, 1024), "training loop of stage 2")
    fusion_weight: float = setting(
        0.0, "weight of dual score and fusion tree relative to the classifier score; 0: no tree, weighted sum", low=0.0
    )
    fusion_depth: int = setting(7, "maximum depth of the fusion tree", low=1, high=16)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fusion_weight > 0 and self.validation == 0:
            raise ConfigError(
                "fusion_weight: its tree is trained on held-out documents. Set validation=0.1, or fusion_weight=0."
            )
        if self.fusion_weight > 0 and self.search.heads != "both":
            raise ConfigError(f"search.heads: '{self.search.heads}', but fusion weighs both heads. Leave it at both.")
        if self.fusion_weight > 0 and self.search.index != "exact":
            raise ConfigError("search.index: fusion scores all labels. Set it to exact.")
        if self.fusion_weight > 0 and self.search.dual_scale != 1.0:
            raise ConfigError(
                f"search.dual_scale: {self.search.dual_scale:g}, but fusion weighs that score itself. Set it to 1."
            )


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """As for other dual encoders; the second stage reads no texts."""
    return forecast_dual(dataset, config, DualPlan.of(config, dataset, config.classifier, config.label_optimizer))


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """The encoder first, then label vectors on its frozen vectors."""
    return fit_stages(dataset, config, job, fuse=config.fusion_weight, depth=config.fusion_depth)
