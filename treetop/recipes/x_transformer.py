"""X-Transformer (KDD 2020): a transformer matches texts with label clusters, linear rankers choose among their labels.

Features: tf-idf concatenated with a transformer's embedding, each L2-normalised. Labels: PIFA, their texts, or PIFA
over embeddings. Tree: one level of balanced clusters. Shortlist: descend. Rank: head for the clusters, linear for the
labels. Key idea: the encoder is fine-tuned once, on a problem of a few hundred or thousand clusters that fits it;
labels are left to linear rankers on fused features, trained against the texts that the matcher confuses with theirs.
Score: product of both. The published ensemble has nine members, three label descriptions for each of three encoders
(`label_features`, `encoders`; presets `paper-...`).

Deviations: mean of the last layer instead of the first token; losses are summed over clusters; label texts are
described by tf-idf instead of word vectors; PIFA over embeddings reads those of the member before it that has the same
encoder, or of the encoder as it comes; a label set that fits into one cluster has a cluster for each label.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal

import numpy as np

from treetop.assemble.label_tree import describe_labels, tree_stage
from treetop.assemble.linear.concatenated import ConcatenatedConfig, linear_below
from treetop.assemble.linear.ensemble import TreesConfig, forecast_trees
from treetop.assemble.members import count_members, encoder_of, job_of, member_name
from treetop.assemble.staged.coarse_to_fine import embed
from treetop.assemble.view import SparseView, sparse_view
from treetop.core import registry
from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.errors import ConfigError, InputError, choose
from treetop.core.forecast import Forecast
from treetop.core.log import logger
from treetop.core.types import Floats, Join, LabelTree, Level
from treetop.core.work import Job
from treetop.features.concatenate import Concatenated, view_of
from treetop.features.encoder.sources import read_encoder_config
from treetop.features.encoder.transformer import Transformer, TransformerConfig
from treetop.features.tfidf.tfidf import TfidfConfig
from treetop.labels.pifa import pifa
from treetop.model import Model
from treetop.network.build import Blueprint, Learning
from treetop.network.fit import train_network
from treetop.network.forecast import EncoderSize, count, forecast_member, forecast_members
from treetop.network.head import HeadPlan
from treetop.network.prepare import Prepared, prepare
from treetop.network.settings import NetworkConfig, small_batches
from treetop.network.targets import of_clusters
from treetop.network.watch import over_clusters
from treetop.partition.balanced import BalancedConfig, balanced, sizes_of
from treetop.partition.flat import flat
from treetop.predict.blend import Blend, check_blend
from treetop.shortlist.everything import Everything

GROUP = "transformer, trees"
EMBEDDING = "embedding"  # the label description that reads the encoder


@dataclass(frozen=True, kw_only=True)
class Config(NetworkConfig):
    """Settings of `x_transformer`."""

    encoder: TransformerConfig = setting(TransformerConfig(l2=True), "encoder and pooling")
    tfidf: TfidfConfig = setting(TfidfConfig(ngrams=(1, 2), min_df=2), "tf-idf features")
    members: int = setting(1, "ensemble size for each label description: members differ in seed", low=1, high=64)
    encoders: tuple[str, ...] = setting((), "ensemble with one member per encoder, in place of `members`")
    label_features: tuple[str, ...] = setting(
        ("pifa",), "label descriptions for clustering, a member each: pifa, text, pifa+text, mixed or embedding"
    )
    blend: Blend = setting("average", "how scores of the members are combined")
    frozen: bool = setting(False, "freeze the encoder instead of fine-tuning it (for CPUs)")
    tree: BalancedConfig = setting(BalancedConfig(max_leaf=16, shallow=True), "label clustering")
    loss: Literal["squared_hinge", "bce"] = setting("squared_hinge", "loss of the matcher")
    dropout: float = setting(0.1, "dropout on the view", low=0.0, high=0.99)
    ranker: ConcatenatedConfig = setting(
        ConcatenatedConfig(cost_positive=4.0, threshold=0.01, beam=50), "linear ranker; beam: clusters of a text"
    )
    score: Literal["own", "path"] = setting("path", "score of the ranker alone (own), or times the matcher's (path)")

    def __post_init__(self) -> None:
        if not self.label_features:
            raise ConfigError("label_features: is empty. Name at least one description, such as pifa.")
        for name in self.label_features:
            choose("label_features", name, (*registry.names("labels"), EMBEDDING))


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """Encoder and matcher, then the ranker on rows that have the encoder's width more numbers."""
    linear, n = forecast_trees(dataset, TreesConfig(tfidf=config.tfidf, linear=config.ranker)), len(dataset)
    training, needs = small_batches(dataset, config.train, config.min_steps_per_epoch), []
    for name in config.encoders or (config.encoder.model,) * config.members:
        size = EncoderSize.of(read_encoder_config(name))
        width = size.width * len(config.encoder.layers)
        plan = _head(config, "", width, sizes_of(dataset.n_labels, config.tree)[0])
        counts = replace(count([plan]), frozen=float(width) if config.frozen else 0.0, label_texts=0.0)
        neural = forecast_member(dataset, size, counts, training, config.encoder.most_tokens)
        weights = 6.0 * dataset.n_labels * width
        rows = n * (3.0 * dataset.Y.nnz / max(n, 1) + config.ranker.beam)
        needs += [
            Forecast(
                memory=max(neural.memory + 8.0 * n * width, linear.memory + 20.0 * n * width + 2.0 * weights),
                model=linear.model + weights + 4.0 * size.parameters,
                time=neural.time + linear.time + rows * width * 500.0 / 1e10,
            )
        ] * len(config.label_features)
    return forecast_members(needs)


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """For each member cluster the labels, fine-tune an encoder on the clusters, then train its ranker."""
    _check(dataset, config)
    if dataset.features:
        logger.info("precomputed features of %s are ignored: tf-idf is computed from the texts", dataset.name)
        dataset = replace(dataset, features={})
    view = sparse_view(dataset, config.tfidf, job)
    transformers: list[Transformer] = []
    members: list[list[Level]] = []
    voters = product(range(count_members(config.members, config.encoders)), config.label_features)
    embeddings: dict[int, Floats] = {}  # of the voter before, by encoder
    for m, (e, description) in enumerate(voters):
        member_job = job_of(job, m)
        prepared = prepare(
            dataset, encoder_of(config.encoder, config.encoders, e), member_job if config.encoders else job,
            name=member_name("encoder", m), dropout=config.encoder_dropout, frozen=config.frozen,
        )  # fmt: skip
        if description == EMBEDDING and e not in embeddings:
            embeddings[e] = np.asarray(embed(prepared, member_job, "first-views"), np.float32)
        tree = _clusters(dataset, config, view, description, embeddings.get(e), member_job)
        matcher, prepared = _match(dataset, config, prepared, tree, member_job)
        transformers.append(prepared.features)
        if EMBEDDING in config.label_features:
            embeddings[e] = np.asarray(embed(prepared, member_job, "views"), np.float32)
        members.append(
            linear_below(
                dataset, prepared, [matcher], view.X, config.ranker, tree=tree, view=view_of("fused", m),
                join=_join(config), job=member_job,
            )
        )  # fmt: skip
    tfidf: Any = view.features["tfidf"]
    fused = Concatenated(tfidf, transformers, config.ranker.embedding_scale)
    return Model.over(dataset, {"fused": fused}, members, config.blend)


def _check(dataset: Dataset, config: Config) -> None:
    """Refuse before anything is trained what could not work afterwards."""
    if len(config.label_features) * count_members(config.members, config.encoders) > 1:
        check_blend(config.blend, [_join(config)])
    if dataset.texts.offsets[-1] == 0:
        raise InputError(f"{dataset.name}: has no texts, which x_transformer reads. Use xr_linear for features alone.")


def _clusters(
    dataset: Dataset, config: Config, view: SparseView, description: str, H: Floats | None, job: Job
) -> LabelTree:
    """One level of clusters above the labels; where all labels fit into one, a cluster for each label."""

    def make() -> LabelTree:
        documents = dataset.documents
        if description == EMBEDDING and H is not None:
            Z = pifa(H[documents], dataset.Y[documents])
        else:
            Z = describe_labels(dataset, view, description)
        tree = balanced(Z, replace(config.tree, shallow=True), seed=job.seed)
        if len(tree.sizes) > 1:
            return tree
        n = dataset.n_labels
        return LabelTree((np.zeros(n, np.int32), np.arange(n, dtype=np.int32)))

    tree = tree_stage(job, "tree", make)
    logger.info("clusters: %s", " → ".join(f"{size:,}" for size in tree.sizes))
    return tree


def _match(dataset: Dataset, config: Config, prepared: Prepared, tree: LabelTree, job: Job) -> tuple[Level, Prepared]:
    """The level of clusters, and the encoder fine-tuned on them."""
    pooling = prepared.features.poolings[-1]
    plan = _head(config, pooling.name, prepared.features.encoder.view_width(pooling), tree.sizes[0])
    learning = Learning(encoder=config.encoder_optimizer, heads=config.head_optimizer, loss=config.loss)
    inputs = prepared.frozen(job) if config.frozen else prepared.learning(compiled=config.compile)
    trained = train_network(
        of_clusters(dataset, tree), prepared, inputs, Blueprint([plan], flat(tree.sizes[0]), learning),
        small_batches(dataset, config.train, config.min_steps_per_epoch), over_clusters(job, tree),
        name="matcher-train",
    )  # fmt: skip
    transform = "hinge3" if config.loss == "squared_hinge" else "sigmoid"
    join = Join(f"log_{transform}" if _join(config).adds else transform)
    level = Level(
        trained.features.view_name(pooling), Everything(tree.sizes[0]), trained.ranks[0], join, config.ranker.beam
    )
    return level, prepared.with_features(trained.features)


def _head(config: Config, view: str, width: int, clusters: int) -> HeadPlan:
    length = config.embedding_norm if config.encoder.l2 else 0.0
    return HeadPlan(view=view, view_width=width, n=clusters, name="matcher", dropout=config.dropout, length=length)


def _join(config: Config) -> Join:
    """How the ranker's margins become scores."""
    if config.ranker.last_transform:
        return Join(config.ranker.last_transform)
    return Join(config.ranker.transform, "own" if config.ranker.transform == "noop" else config.score)
