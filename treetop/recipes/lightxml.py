"""LightXML (AAAI 2021): one transformer, a generator of label clusters and a ranker of labels, trained together.

Features: transformer, mean of the last layer (the paper: first token of the last five layers, as in the presets
`paper-...`). Labels: PIFA. Tree: one level of balanced clusters, more on request, or none for small label sets.
Shortlist: descend (negatives are the labels of the clusters the generator currently ranks highest). Rank: head with a
projection (`projection_dim`). Key idea: dynamic negative sampling; negatives are easy at first and get harder as the
generator learns. Score: product of the probabilities. `members` trains an ensemble and averages scores.

Deviations: label vectors are initialised from label text, which is worth three points P@1 on short texts, and biases
with the log odds; padding is masked instead of repeating the last label; labels whose cluster is not shortlisted are
left out instead of overwriting negatives (`beam` exceeds the number of clusters of any document); losses are summed
over candidates, so the 1 : 1 weighting of the two means becomes `ranker_weight`; the published code accidentally turns
dropout off after the first evaluation, which is not reproduced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from treetop.assemble.label_tree import tree_stage
from treetop.assemble.members import Member, encoder_of, fit_members, member_name
from treetop.assemble.view import sparse_view
from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.errors import ConfigError
from treetop.core.forecast import Forecast
from treetop.core.types import Candidates, Join, LabelTree
from treetop.core.work import Job
from treetop.features.encoder.encoder import Pooling
from treetop.features.encoder.transformer import Transformer, TransformerConfig
from treetop.features.tfidf.tfidf import TfidfConfig
from treetop.labels.pifa import pifa
from treetop.model import Model
from treetop.network.build import Blueprint, Learning
from treetop.network.fit import as_levels, train_network
from treetop.network.forecast import forecast_encoders
from treetop.network.head import HeadPlan
from treetop.network.init import Init
from treetop.network.inputs import Inputs
from treetop.network.prepare import Prepared, prepare
from treetop.network.settings import NetworkConfig, small_batches
from treetop.network.targets import of_clusters
from treetop.network.watch import over_clusters, sampled_job
from treetop.partition.balanced import BalancedConfig, balanced, sizes_of
from treetop.partition.flat import flat
from treetop.rank.head import Head

GROUP = "transformer, trees"
HOOKS = ("rows", "soft", "sample", "mix", "penalty")  # places for augmentations
TUNES = {  # settings that `treetop tune` tries
    "train.epochs": [3.0, 5.0, 8.0, 12.0],
    "encoder_optimizer.lr": [0.0001, 0.0003, 0.0006],
    "head_optimizer.lr": [0.001, 0.003, 0.01],
    "dropout": [0.1, 0.3, 0.5],
}
FEW = 50_000  # labels below which clusters cost more than they save


@dataclass(frozen=True, kw_only=True)
class Config(NetworkConfig):
    """Settings of `lightxml`."""

    encoder: TransformerConfig = setting(TransformerConfig(l2=True), "encoder and pooling")
    init: Init = setting(
        "auto", "initialise label vectors from label text, or not (zero); auto: where label text is informative"
    )
    init_scale: float = setting(15.0, "scale of the label-text initialisation", low=0.0)
    members: int = setting(1, "ensemble size: members differ in seed and clusters, scores are averaged", low=1, high=64)
    encoders: tuple[str, ...] = setting((), "ensemble with one member per encoder, in place of `members`")
    frozen: bool = setting(False, "freeze the encoder and train only the heads (for CPUs)")
    clusters: Literal["auto", "none", "tree"] = setting(
        "auto", "cluster labels (two levels), or score all of them; auto: by the number of labels"
    )
    tree: BalancedConfig = setting(
        BalancedConfig(max_leaf=100, shallow=True, per_node=True, stop_when="gain"), "label clustering"
    )
    tfidf: TfidfConfig = setting(TfidfConfig(), "tf-idf features for label clustering")
    beam: int = setting(75, "beam: clusters per level whose children are ranked", low=1)
    projection_dim: int = setting(
        400, "projection dimension of the label head (with clusters); 0: no projection", low=0
    )
    dropout: float = setting(0.1, "dropout on the view", low=0.0, high=0.99)
    loss: Literal["bce", "squared_hinge"] = setting("bce", "loss of generator and ranker")
    negatives: Literal["dynamic", "static", "static_extra"] = setting(
        "dynamic",
        "train generator and ranker jointly; ranker afterwards on the frozen encoder; or on a second encoder",
    )
    ranker_weight: float = setting(1.0, "weight of the ranker loss relative to the generator loss", low=0.0)
    validation: float = setting(0.0, "hold-out fraction of the documents, for early stopping", low=0.0, high=0.5)


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """Encoder, tokens and label vectors with their optimiser states; time on two CPU cores, or on the GPU."""
    n, layers = dataset.n_labels, len(config.encoder.layers)
    sizes = [n] if _is_flat(dataset, config) else sizes_of(n, config.tree)
    return forecast_encoders(
        dataset, config, lambda size: _heads(config, "", size.width * layers, sizes), frozen=config.frozen
    )


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Cluster the labels, then train generator and ranker on one encoder; once for each member."""
    return fit_members(
        dataset,
        config.members,
        config.encoders,
        job,
        lambda m, member_job: _member(dataset, config, m, member_job, job),
    )


def _member(dataset: Dataset, config: Config, m: int, member_job: Job, job: Job) -> Member:
    pooling = Pooling(config.encoder.pooling, config.encoder.layers)
    shared = member_job if config.encoders else job  # tokens and frozen views of one encoder serve all
    prepared = prepare(
        dataset,
        encoder_of(config.encoder, config.encoders, m),
        shared,
        name=member_name("encoder", m),
        dropout=config.encoder_dropout,
        frozen=config.frozen,
    )
    tree = flat(dataset.n_labels) if _is_flat(dataset, config) else _clusters(dataset, config, member_job)
    plans = _heads(config, pooling.name, prepared.features.encoder.view_width(pooling), tree.sizes)
    inputs = prepared.frozen(shared) if config.frozen else prepared.learning(compiled=config.compile)
    learning = Learning(
        encoder=config.encoder_optimizer,
        heads=config.head_optimizer,
        loss=config.loss,
        init=config.init,
        init_scale=config.init_scale,
    )
    blueprint = Blueprint(plans, tree, learning)
    training = small_batches(dataset, config.train, config.min_steps_per_epoch)
    if config.negatives != "dynamic" and len(plans) == 2:
        return _static(dataset, config, member_job, prepared, inputs, blueprint)
    trained = train_network(dataset, prepared, inputs, blueprint, training, member_job, validation=config.validation)
    views = [trained.features.view_name(pooling)] * len(plans)
    return [trained.features], [as_levels(views, tree, trained.ranks, plans)]


def _heads(config: Config, view: str, width: int, sizes: Sequence[int]) -> list[HeadPlan]:
    """Generator: all clusters. Ranker: the labels below the best ones. Or all labels at once."""
    length = config.embedding_norm if config.encoder.l2 else 0.0
    first = HeadPlan(view=view, view_width=width, n=sizes[0], name="level-0", dropout=config.dropout, length=length)
    below = replace(first, dimension=config.projection_dim, weight=config.ranker_weight)
    return [first] + [
        replace(below, n=n, name=f"level-{t}", keep=min(config.beam, above))
        for t, (above, n) in enumerate(pairwise(sizes), 1)
    ]


def _static(
    dataset: Dataset, config: Config, job: Job, prepared: Prepared, inputs: Inputs, blueprint: Blueprint
) -> Member:
    """Table 5's rivals: the generator first, its clusters noted for every text, then the ranker on these for good."""
    for hook in filter(None, (job.mix, job.penalty)):
        raise ConfigError(f"negatives: '{config.negatives}' does not support {hook.name}. Set negatives=dynamic.")
    if config.train.patience:
        raise ConfigError(f"negatives: '{config.negatives}' does not support train.patience. Set negatives=dynamic.")
    tree, (first, second) = blueprint.tree, blueprint.plans
    training = small_batches(dataset, config.train, config.min_steps_per_epoch)
    clusters = replace(blueprint, plans=[first], tree=flat(tree.sizes[0]))
    generator = train_network(
        of_clusters(dataset, tree), prepared, inputs, clusters, training, over_clusters(job, tree), name="generator"
    )
    prepared = prepared.with_features(generator.features)
    frozen = prepared.frozen(job, "generator-views", pooled=True)
    head, job = generator.ranks[0], sampled_job(dataset, job)
    given, given_held_out = _kept(head, second, frozen, len(dataset)), None
    if job.held_out is not None:
        given_held_out = _kept(head, second, prepared.beside(job.held_out.texts, frozen), len(job.held_out))
    if config.negatives == "static_extra":
        encoder = Transformer.from_part(generator.features.to_part()).named(f"{generator.features.name}-ranker")
        prepared = prepared.with_features(encoder)
    inputs = frozen if config.negatives == "static" else prepared.learning(compiled=config.compile)
    labels = replace(blueprint, plans=[second], given=given, given_held_out=given_held_out)
    ranker = train_network(dataset, prepared, inputs, labels, training, job, name="ranker")
    pooling = Pooling(config.encoder.pooling, config.encoder.layers)
    used = [generator.features] if config.negatives == "static" else [generator.features, ranker.features]
    names = [generator.features.view_name(pooling), ranker.features.view_name(pooling)]
    return used, [as_levels(names, tree, [head, ranker.ranks[0]], [first, second])]


def _kept(head: Head, ranker: HeadPlan, inputs: Inputs, rows: int) -> NDArray[np.int32]:
    """The clusters below which the ranker looks: those the generator likes best for each of these rows."""
    view = inputs.views(inputs.load(np.arange(rows)))[ranker.view].cpu().numpy()
    return head.rank(view, Candidates.all(rows, len(head.bias)), Join(), ranker.keep).padded(ranker.keep)


def _is_flat(dataset: Dataset, config: Config) -> bool:
    if config.clusters == "auto":
        return dataset.n_labels < FEW
    return config.clusters == "none" or dataset.n_labels <= config.tree.max_leaf


def _clusters(dataset: Dataset, config: Config, job: Job) -> LabelTree:
    def make() -> LabelTree:
        X, documents = sparse_view(dataset, config.tfidf, job).X, dataset.documents
        return balanced(pifa(X[documents], dataset.Y[documents]), config.tree, seed=job.seed)

    return tree_stage(job, "tree", make)
