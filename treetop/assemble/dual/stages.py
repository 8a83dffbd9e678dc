"""Two stages: a dual encoder, then label vectors that start from its label embeddings while it is frozen."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from treetop.assemble.dual.fit import DualPlan, Trained, as_model, prepare_dual, train_dual
from treetop.assemble.dual.new_labels import with_map
from treetop.assemble.dual.search import sampled, with_unseen
from treetop.assemble.dual.settings import SearchConfig, TwoHeadConfig
from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.errors import ConfigError
from treetop.core.work import Job
from treetop.evaluate.propensity import inverse_propensity
from treetop.features.encoder.towers import Towers
from treetop.model import Model
from treetop.network.fit import cut
from treetop.network.pool_heads import ClassifierConfig
from treetop.network.samplers.pools import PoolConfig
from treetop.network.settings import small_batches
from treetop.rank.dual import Dual
from treetop.rank.fusion import Fusion, grow, seen_pairs
from treetop.train.batches import Rows
from treetop.train.task import TrainConfig, warmed_up


@dataclass(frozen=True, kw_only=True)
class StagesConfig(TwoHeadConfig):
    """Settings of dual encoders with a second stage; `classifier` and `label_optimizer` are those of the second."""

    classifier: ClassifierConfig = setting(
        ClassifierConfig(cosine=True, bias=False, dropout=0.5), "classifier head of stage 2 (free label vectors)"
    )
    search: SearchConfig = setting(
        SearchConfig(classifier_score="cosine", dual_scale=0.1), "label search and score fusion"
    )
    second_pool: PoolConfig = setting(
        PoolConfig(mine_from=0, clustered=False, hard_negatives=5), "mini-batches and label pools of stage 2"
    )
    second_train: TrainConfig = setting(warmed_up(10, 1024), "training loop of stage 2")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.frozen:
            raise ConfigError("frozen: the first stage trains the encoder. Use unidec with preset=cpu, or false.")
        if self.dual.weight == 0 or self.classifier.weight == 0:
            raise ConfigError("dual.weight, classifier.weight: each stage trains one of them. Set both above 0.")
        if self.search.classifier_score != "cosine" or self.search.dual_scale == 0:
            raise ConfigError(
                "search.classifier_score, search.dual_scale: the stages' cosines are added. Leave "
                "classifier_score=cosine, and search.dual_scale above 0."
            )
        if self.search.logit_adjustment > 0:
            raise ConfigError("search.logit_adjustment: no logit adjustment with two stages. Leave it at 0.")


def fit_stages(dataset: Dataset, config: StagesConfig, job: Job, *, fuse: float = 0.0, depth: int = 7) -> Model:
    """Both stages, one search over the two label vectors of each label; with `fuse` a tree weighs the two scores.

    The tree learns from held-out documents, so `config.validation` must be above 0 for it.
    """
    prepared = prepare_dual(dataset, config, job)
    encoder = DualPlan.of(config, dataset)
    one = train_dual(
        dataset,
        prepared,
        prepared.learning(compiled=config.compile),
        encoder,
        replace(config.search, heads="dual"),
        job,
        name="encoder",
    )
    frozen = prepared.with_features(one.features.transformer)
    classifier = replace(
        encoder,
        dual=None,
        classifier=config.classifier,
        pool=config.second_pool,
        vectors=config.label_optimizer,
        train=small_batches(dataset, config.second_train, config.min_steps_per_epoch),
    )
    cosines = SearchConfig(
        heads="classifier", classifier_score="cosine", dual_scale=1.0, classifier_weight=config.search.classifier_weight
    )
    two = train_dual(
        dataset, frozen, frozen.frozen(job, "encoder-views", pooled=True), classifier, cosines, job, name="classifier"
    )
    features, rank = joined(one, two, config.search)
    queries = features.views(sampled(dataset, job.seed))[features.view_name()]
    rank = with_unseen(rank, queries, dataset.label_counts == 0, rank.bias)
    if fuse == 0:
        rank = with_map(rank, queries, dataset.label_counts)
    else:
        _, held_out = cut(dataset, config.validation, job.seed)
        rank = fused(dataset, held_out, features, rank, beta=fuse, depth=depth)
    return as_model(dataset, features, rank, config.search, job)


def joined(one: Trained, two: Trained, search: SearchConfig) -> tuple[Towers, Dual]:
    """The label vectors of the chosen stages, concatenated; labels with equal texts keep the first stage's order."""
    stages = {"both": (one, two), "dual": (one,), "classifier": (two,)}[search.heads]
    towers = [tower for stage in stages for tower in stage.features.towers]
    weight = np.hstack([stage.rank.weight for stage in stages])
    widths = {name: width for stage in stages for name, width in stage.rank.widths.items()}
    # The first stage's offset separates equal texts; in cosines it is ten times smaller than in margins.
    offset = one.rank.bias - one.rank.bias.max() if one in stages else np.zeros_like(one.rank.bias)
    return Towers(one.features.transformer, towers), Dual(weight, np.float32(0.1) * offset, widths=widths)


def fused(dataset: Dataset, held_out: Rows, features: Towers, rank: Dual, *, beta: float, depth: int) -> Dual:
    """The same label vectors with a small tree over both scores and the label's rarity, learned on held-out texts."""
    if len(held_out) == 0:
        return rank
    n = int(dataset.documents.sum())
    rare = inverse_propensity(dataset.label_counts, n, *dataset.propensity).astype(np.float32)
    view = features.views(dataset.texts.take(held_out))[features.view_name()]
    X, y = seen_pairs(Fusion(rank, rare, beta=beta), view, dataset.Y[held_out])
    return Fusion(rank, rare, beta=beta, tree=grow(X, y, depth=depth))
