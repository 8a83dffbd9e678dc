"""CascadeXML (NeurIPS 2022): all levels of a label tree on one encoder, each with a head of its own, trained at once.

Features: transformer; each level reads a layer of it (`read_layers`). Labels: PIFA smoothed by random walks
between labels that share texts. Tree: two or three levels of balanced clusters, each with eight times as many clusters
as the one above. Shortlist: descend (the children of the clusters the level above currently ranks highest; in training
the true ones are always included). Rank: head. Key idea: one layer per resolution; in the paper coarse levels read
earlier layers (preset `paper-layers`), so that no two share an embedding. By default all levels read the last layer,
which is better with the encoders measured here. Score: a label's own probability, or times its parent's. With `ranker`
a linear ranker on tf-idf and embedding replaces the network's last level or joins it (DiSMEC on the network's
shortlist).

Deviations: label and cluster vectors are initialised from label text where it is informative, biases with the log odds;
walks also start from head labels (`walk.head_threshold=500`: these keep only themselves, as published); padding is
masked; the first level's dropout precedes its linear layer; Adam's moments are not cycled; accumulated mini-batches
count as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, TypeVar

from treetop.assemble.label_tree import tree_stage
from treetop.assemble.linear.concatenated import ConcatenatedConfig, concatenated_member
from treetop.assemble.members import Member, encoder_of, fit_members, member_name
from treetop.assemble.view import sparse_view
from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.errors import ConfigError
from treetop.core.forecast import Forecast
from treetop.core.types import LabelTree
from treetop.core.work import Job
from treetop.features.concatenate import view_of
from treetop.features.encoder.encoder import Encoder, Pooling
from treetop.features.encoder.transformer import TransformerConfig
from treetop.features.tfidf.tfidf import TfidfConfig
from treetop.labels.graph import WalkConfig, smoothed, walk_graph
from treetop.labels.pifa import pifa
from treetop.model import Model
from treetop.network.build import Blueprint, Learning
from treetop.network.fit import as_levels, train_network
from treetop.network.forecast import forecast_encoders
from treetop.network.head import HeadPlan
from treetop.network.init import Init
from treetop.network.losses.pairs import Reduce
from treetop.network.prepare import prepare
from treetop.network.settings import NetworkConfig, small_batches
from treetop.partition.balanced import BalancedConfig, at_resolutions, check_resolutions
from treetop.partition.flat import flat

GROUP = "transformer, trees"
HOOKS = ("rows", "soft", "sample", "mix", "penalty")  # places for augmentations
T = TypeVar("T", int, float)
ReadLayers = Literal["spread", "last"]
LEAF = 7  # target number of labels per finest cluster
STEP = 8  # ratio of clusters between neighbouring levels
FINEST, COARSEST = 1 << 16, 1 << 6  # largest and smallest number of clusters per level
SHARE, MOST = 4, 512  # default beam: this fraction (1/4) of a level's clusters, at most 512


@dataclass(frozen=True, kw_only=True)
class Config(NetworkConfig):
    """Settings of `cascadexml`."""

    encoder: TransformerConfig = setting(
        TransformerConfig(l2=True), "encoder; `layers` (below) overrides encoder.layers"
    )
    layers: tuple[tuple[int, ...], ...] = setting(
        (), "encoder layers read by each tree level, coarse levels first; empty: by `read_layers`"
    )
    read_layers: ReadLayers = setting(
        "last", "which layer levels read: the last one for all, or spread (coarse levels earlier ones, as published)"
    )
    resolutions: tuple[int, ...] = setting(
        (), "clusters per tree level above the labels; empty: chosen by the number of labels"
    )
    beam: tuple[int, ...] = setting((), "beam per tree level; empty: a quarter of its clusters, at most 512")
    dropouts: tuple[float, ...] = setting((), "dropout on the view of each tree level; empty: 0.1")
    score: Literal["own", "parent", "path"] = setting(
        "own", "label probability alone (own), times its parent's, or the product along the path"
    )
    smooth: bool = setting(True, "smooth label representations by random walks before clustering")
    walk: WalkConfig = setting(WalkConfig(), "random walks")
    tree: BalancedConfig = setting(BalancedConfig(stop_when="gain"), "balanced 2-means clustering of labels")
    tfidf: TfidfConfig = setting(TfidfConfig(), "tf-idf features for label clustering and the linear ranker")
    init: Init = setting(
        "auto",
        "initialise label and cluster vectors from label text, or not (zero); auto: where label text is informative",
    )
    init_scale: float = setting(15.0, "scale of the label-text initialisation", low=0.0)
    reduction: Reduce = setting("sum", "reduction of a level's loss over its candidates")
    ranker: Literal["network", "linear", "both"] = setting(
        "network", "label ranker: the network, a linear one on tf-idf + embedding below its clusters, or both"
    )
    linear: ConcatenatedConfig = setting(ConcatenatedConfig(threshold=0.01, beam=50), "linear ranker")
    members: int = setting(1, "ensemble size: members differ in seed and clusters, scores are averaged", low=1, high=64)
    encoders: tuple[str, ...] = setting((), "ensemble with one member per encoder, in place of `members`")
    validation: float = setting(0.0, "hold-out fraction of the documents, for early stopping", low=0.0, high=0.5)

    def __post_init__(self) -> None:
        check_resolutions(self.resolutions)
        if any(kept < 1 for kept in self.beam):
            raise ConfigError(f"beam: {list(self.beam)}; each level must keep 1 cluster or more.")
        if any(not 0.0 <= share <= 0.99 for share in self.dropouts):
            raise ConfigError(f"dropouts: {list(self.dropouts)}; allowed: 0 to 0.99 for each level.")


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """Encoder, tokens and vectors of all levels with their optimiser states; time on two CPU cores, or on the GPU."""
    sizes = [*_resolutions(dataset.n_labels, config), dataset.n_labels]
    poolings = [Pooling(config.encoder.pooling, (-1,)) for _ in sizes]
    return forecast_encoders(dataset, config, lambda size: _heads(config, poolings, sizes, size.width))


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Cluster the labels, then train all levels together; once for each member."""
    words: Any = None
    if config.ranker != "network":
        if dataset.features:
            raise ConfigError(
                f"ranker: '{config.ranker}' needs texts, but {dataset.name} has precomputed features. Use network."
            )
        if not dataset.documents.all() or job.mix is not None or job.penalty is not None:
            raise ConfigError(f"ranker: '{config.ranker}' is linear and does not support augmentations. Use network.")
        words = sparse_view(dataset, config.tfidf, job).features["tfidf"]
    return fit_members(
        dataset,
        config.members,
        config.encoders,
        job,
        lambda m, member_job: _member(dataset, config, m, member_job, job),
        words=words,
        dense=config.linear.embedding_scale,
    )


def _member(dataset: Dataset, config: Config, m: int, member_job: Job, job: Job) -> Member:
    sizes = _resolutions(dataset.n_labels, config)
    prepared = prepare(
        dataset,
        encoder_of(config.encoder, config.encoders, m),
        member_job if config.encoders else job,
        name=member_name("encoder", m),
        dropout=config.encoder_dropout,
    )
    encoder = prepared.features.encoder
    layers = _layers(config.layers, len(sizes) + 1, encoder, config.read_layers)
    poolings = [Pooling(config.encoder.pooling, level) for level in layers]
    prepared.features.read(poolings)
    tree = flat(dataset.n_labels)
    if sizes:
        tree = tree_stage(member_job, "tree", lambda: _tree(dataset, config, sizes, member_job))
    plans = _heads(config, poolings, tree.sizes, encoder.width)
    learning = Learning(
        encoder=config.encoder_optimizer,
        heads=config.head_optimizer,
        reduce=config.reduction,
        init=config.init,
        init_scale=config.init_scale,
    )
    inputs, blueprint = prepared.learning(compiled=config.compile), Blueprint(plans, tree, learning)
    training = small_batches(dataset, config.train, config.min_steps_per_epoch)
    trained = train_network(dataset, prepared, inputs, blueprint, training, member_job, validation=config.validation)
    views = [trained.features.view_name(pooling) for pooling in poolings]
    levels = as_levels(views, tree, trained.ranks, plans, config.score)
    if config.ranker == "network":
        return [trained.features], [levels]
    X = sparse_view(dataset, config.tfidf, job).X
    fused = concatenated_member(
        dataset, prepared.with_features(trained.features), levels, X, config.linear,
        tree=tree, view=view_of("fused", m), job=member_job,
    )  # fmt: skip
    if config.ranker == "both":
        return [trained.features], [levels, fused]
    *above, last = fused  # margins of different clusters are comparable only times their clusters' scores
    joined = replace(last.join, combine="parent") if above and last.join.transform != "noop" else last.join
    return [trained.features], [[*above, replace(last, join=joined)]]


def _heads(config: Config, poolings: Sequence[Pooling], sizes: Sequence[int], width: int) -> list[HeadPlan]:
    """One head per level of the tree, each on its own layer; several layers are projected to the encoder's width."""
    n, length = len(poolings), config.embedding_norm if config.encoder.l2 else 0.0
    dropouts = _each(config.dropouts, [0.1] * n, "dropouts")
    keep = [0, *_keep(config, sizes)]
    heads = []
    for t, pooling in enumerate(poolings):
        wide = width * len(pooling.layers)
        heads.append(
            HeadPlan(
                view=pooling.name, view_width=wide, n=sizes[t], name=f"level-{t}",
                keep=min(keep[t], sizes[t - 1]) if t else 0, dimension=width if wide > width else 0,
                dropout=dropouts[t], length=length,
            )
        )  # fmt: skip
    return heads


def _keep(config: Config, sizes: Sequence[int]) -> list[int]:
    return _each(config.beam, [min(MOST, max(1, size // SHARE)) for size in sizes[:-1]], "beam")


def _each(given: tuple[T, ...], usual: list[T], name: str) -> list[T]:
    """A value for each level: those given, or the defaults."""
    if given and len(given) != len(usual):
        raise ConfigError(f"{name}: {len(given)} values for {len(usual)} levels. Give one for each, or leave it out.")
    return list(given) or usual


def _resolutions(n_labels: int, config: Config) -> list[int]:
    """Clusters on each level: the finest hold about seven labels, each level above is eight times as coarse."""
    if config.resolutions:
        return list(config.resolutions)
    finest = min(FINEST, 1 << max(0, round(n_labels / LEAF).bit_length() - 1))
    if (n_labels / LEAF) / finest > 2**0.5:  # round to the nearest power of two
        finest = min(FINEST, 2 * finest)
    sizes = [finest // STEP**t for t in range(3 if finest >= FINEST else 2)]
    return sorted(size for size in sizes if size >= COARSEST)


def _layers(given: tuple[tuple[int, ...], ...], n: int, encoder: Encoder, read: ReadLayers) -> list[tuple[int, ...]]:
    """Per level the layers it reads: the last one for the labels, earlier ones above, two for the first level."""
    if given:
        if len(given) != n:
            raise ConfigError(f"layers: {len(given)} levels, but the tree has {n}. Name the layers of each level.")
        places = [[encoder.layer(layer) for layer in level] for level in given]
        if not all(places) or any(max(a) > min(b) for a, b in pairwise(places)):
            raise ConfigError(f"layers: {[list(level) for level in given]} is out of order; coarse levels come first.")
        return list(given)
    if read == "last":
        return [(encoder.depth,)] * n
    step = 2 if encoder.depth >= 12 else 1
    top, *below = (max(1, encoder.depth - step * t) for t in reversed(range(n)))
    first = (top - 1, top) if below and top > 1 else (top,)
    return [first, *((layer,) for layer in below)]


def _tree(dataset: Dataset, config: Config, sizes: list[int], job: Job) -> LabelTree:
    X, Y = sparse_view(dataset, config.tfidf, job).X[dataset.documents], dataset.Y[dataset.documents]
    Z = pifa(X, Y, normalise_targets=False)
    if config.smooth:
        Z = smoothed(Z, walk_graph(Y, config.walk, seed=job.seed))
    return at_resolutions(Z, sizes, config.tree.options, seed=job.seed)
