"""InceptionXML-LF (KDD 2024): InceptionXML whose label vectors are composed from label texts and a label graph.

Features: words + inception (routed, a second convolution per task), views of the word-vector dimension. Labels: the sum
of the word vectors of their text, and the aggregation of those sums over a random-walk label graph, each through a
residual block of spectral norm 1. Tree: one level of balanced clusters of PIFA smoothed by the walks; none for small
label sets. Shortlist: descend. Rank: head. Key idea: two phases. In phase I label vectors come from text and graph
only, so that word vectors and network must represent the labels; in phase II free vectors are added, initialised with
the text part, and each label weights the three parts by attention. After training they collapse into one vector. Score:
product of the probabilities.

Deviations: no code was published; what the paper leaves open follows ECLARE or `features/words/inception.py`: the width
(positions averaged as a residual of the last layer, as InceptionXML does for its largest data sets), phases of 5 and 10
epochs, attention re-initialised in phase II, blocks kept. Both phases share the clusters: re-clustering by the label
texts of phase I (`recluster`, as published) lowered the recall of the shortlist. Clusters have free vectors only. Word
vectors are initialised with an encoder's token embeddings if no GloVe file is given; biases with the log odds
(`bias=false`: none); losses are summed over candidates. `phases=1` gives the model of phase I. For labels with neither
text nor name, the id is read; labels without training texts are found by their text. Single process only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from scipy.sparse import csr_matrix

from treetop.assemble.label_graph import walk_graph_stage
from treetop.assemble.label_text_bags import check_labels, two_heads, two_levels, words_of
from treetop.assemble.label_tree import ClustersConfig, in_clusters, smoothed_clusters, tree_stage
from treetop.assemble.members import Member, fit_members, member_name
from treetop.core.config import setting
from treetop.core.dataset import Csr, Dataset
from treetop.core.errors import ConfigError
from treetop.core.forecast import Forecast
from treetop.core.types import LabelTree
from treetop.core.work import Job
from treetop.features.tfidf.tfidf import TfidfConfig
from treetop.features.words.inception import TASKS, InceptionConfig
from treetop.features.words.vectors import WordsConfig
from treetop.labels.graph import WalkConfig
from treetop.labels.text import label_words
from treetop.model import Model
from treetop.network.build import Blueprint, Learning
from treetop.network.fit import Trained, train_network
from treetop.network.forecast import forecast_words
from treetop.network.head import HeadPlan
from treetop.network.losses.pairs import Reduce
from treetop.network.prepare import Prepared, prepare_words
from treetop.network.settings import small_batches
from treetop.network.vectors.parts import Join, PartsPlan
from treetop.partition.balanced import balanced, sizes_of
from treetop.partition.flat import flat
from treetop.train.optim import AdamConfig
from treetop.train.task import TrainConfig, warmed_up

GROUP = "short text, label text"
HOOKS = ("rows", "soft", "sample", "mix", "penalty")  # places for augmentations
META, EXTREME = TASKS


@dataclass(frozen=True, kw_only=True)
class Config(ClustersConfig):
    """Settings of `inceptionxml_lf`."""

    encoder: WordsConfig = setting(WordsConfig(), "pretrained word vectors")
    network: InceptionConfig = setting(
        InceptionConfig(reduce_to_word_dim=True), "text encoder on top of the word vectors"
    )
    members: int = setting(1, "ensemble size: members differ in seed and clusters, scores are averaged", low=1, high=64)
    walk: WalkConfig = setting(WalkConfig(head_threshold=500), "random walks that build the label graph")
    tfidf: TfidfConfig = setting(TfidfConfig(), "tf-idf features for the initial label clustering")
    phases: int = setting(2, "1: label vectors from text and graph only; 2: then with free vectors", low=1, high=2)
    recluster: bool = setting(False, "re-cluster labels for phase II by their phase I label-text embeddings")
    cluster_dropout: float = setting(0.3, "dropout on the cluster head's view", low=0.0, high=0.99)
    dropout: float = setting(0.4, "dropout on the label head's view", low=0.0, high=0.99)
    label_dropout: float = setting(0.2, "dropout in the label-text blocks and in attention", low=0.0, high=0.99)
    combine: Join = setting("attention", "combine a label's parts by attention per label, or by DECAF's gates")
    bias: bool = setting(True, "learn a bias per label")
    reduction: Reduce = setting("sum", "reduction of a level's loss over its candidates")
    score: Literal["own", "path"] = setting("path", "label probability alone (own), or times its cluster's (path)")
    encoder_optimizer: AdamConfig = setting(
        AdamConfig(lr=2e-3, weight_decay=0.0), "optimiser of word vectors, network and label-text blocks"
    )
    second_optimizer: AdamConfig = setting(AdamConfig(lr=2e-3, weight_decay=0.0), "optimiser of the same in phase II")
    head_optimizer: AdamConfig = setting(AdamConfig(lr=5e-3, weight_decay=0.0), "optimiser of the free label vectors")
    train: TrainConfig = setting(warmed_up(5, 512, "cosine", 0.2), "training loop of phase I")
    second_train: TrainConfig = setting(warmed_up(10, 512, "cosine", 0.2), "training loop of phase II")
    min_steps_per_epoch: int = setting(
        100, "target updates per epoch: small data sets get smaller mini-batches, down to 16", low=1
    )

    def __post_init__(self) -> None:
        if not self.network.reduce_to_word_dim:
            raise ConfigError(
                "network.reduce_to_word_dim: label texts have the dimension of the word vectors. Leave it true."
            )


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """Words, network and label vectors with their optimiser states; time on two CPU cores, or on the GPU."""
    n = dataset.n_labels
    epochs = config.train.epochs + (config.second_train.epochs if config.phases > 1 else 0.0)
    training = replace(small_batches(dataset, config.train, config.min_steps_per_epoch), epochs=epochs)
    sizes = [1, n] if config.is_flat(n) else sizes_of(n, config.tree)
    graph = csr_matrix((0, 0))
    return forecast_words(dataset, config, training, lambda size: _heads(config, size.width, sizes, graph, free=True))


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Walk between labels, cluster them, then both phases; once for each member."""
    check_labels(dataset, job, "inceptionxml_lf")
    return fit_members(
        dataset, config.members, (), job, lambda m, member_job: _member(dataset, config, m, member_job, job)
    )


def _member(dataset: Dataset, config: Config, m: int, member_job: Job, job: Job) -> Member:
    n = dataset.n_labels
    prepared = prepare_words(
        dataset,
        config.encoder,
        ("inception", config.network),
        TASKS,
        name=member_name("words", m),
        seed=member_job.seed,
        job=job,
        more=label_words(dataset.labels),
    )
    G = walk_graph_stage(dataset, config.walk, member_job, "inceptionxml_lf")
    tree = flat(n) if config.is_flat(n) else smoothed_clusters(dataset, config.tfidf, config.tree, G, member_job)
    tree, width = in_clusters(tree), prepared.features.encoder.width
    plans = _heads(config, width, tree.sizes, G, free=False)
    trained = _phase(dataset, config, prepared, tree, plans, member_job)
    if config.phases > 1:
        prepared = prepared.with_features(trained.features)
        tree = _clusters_again(config, trained, member_job) if config.recluster and tree.sizes[0] > 1 else tree
        plans = _heads(config, width, tree.sizes, G, free=True)
        trained = _phase(dataset, config, prepared, tree, plans, member_job, trained)
    return [trained.features], [two_levels(trained, tree, plans, config.score)]


def _heads(config: Config, width: int, sizes: Sequence[int], G: Csr, *, free: bool) -> list[HeadPlan]:
    """Clusters have free vectors; labels their text and those of labels they go with, in phase II a free vector too."""
    labels = PartsPlan(
        graph=G,
        free=free,
        init="text" if free else "random",
        join=config.combine,
        block="gelu",
        dropout=config.label_dropout,
    )
    keep, dropouts = config.kept(sizes[1], sizes[0]), (config.cluster_dropout, config.dropout)
    return two_heads(META.name, EXTREME.name, width, sizes, keep, PartsPlan(text=False), labels, dropouts=dropouts)


def _phase(
    dataset: Dataset,
    config: Config,
    prepared: Prepared,
    tree: LabelTree,
    plans: Sequence[HeadPlan],
    job: Job,
    before: Trained | None = None,
) -> Trained:
    first = before is None
    learning = Learning(
        encoder=config.encoder_optimizer if first else config.second_optimizer,
        heads=config.head_optimizer,
        reduce=config.reduction,
        bias=config.bias,
    )
    words = words_of(prepared, None if before is None else before.blocks)
    training = small_batches(dataset, config.train if first else config.second_train, config.min_steps_per_epoch)
    inputs, blueprint = prepared.learning(), Blueprint(plans, tree, learning, words=words)
    name = "train" if first else "second-train"
    return train_network(dataset, prepared, inputs, blueprint, training, job, name=name)


def _clusters_again(config: Config, trained: Trained, job: Job) -> LabelTree:
    """Phase II: clusters by what the first phase made of label texts."""
    texts = trained.label_texts
    return tree_stage(job, "second-tree", lambda: balanced(texts, replace(config.tree, shallow=True), seed=job.seed))
