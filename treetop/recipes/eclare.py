"""ECLARE (WWW 2021): DECAF plus a label graph: a label's vector also uses the texts of labels it co-occurs with.

Features: tf-idf-weighted sum of a text's word vectors, through a residual block. Labels: their own text, and the texts
of the labels that random walks over shared documents visit. Tree: one level of balanced clusters of label
representations smoothed by the same walks. Shortlist: descend (in training the true clusters are always included).
Rank: head, whose label vectors combine a free, a text and a graph vector element-wise. Key idea: the label graph; a
label with few texts borrows the words of the labels it co-occurs with. After training the three collapse into one
vector. Score: product of the probabilities. `members` trains several trees (published: three).

Deviations: both levels are trained jointly instead of one after the other, and word vectors are initialised with an
encoder's token embeddings (or from a file) instead of by a surrogate task; parts are combined by DECAF's gates
(`combine=attention`: attention weights per label that sum to 1, as published); free vectors are initialised at random
(`init=graph`: with the graph part, as published; labels with the same neighbours then start out equal); no edge is
pruned by distance; predictions are not propagated over the graph; biases are initialised with the log odds
(`bias=false`: none, as published). For labels with neither text nor name, the id is read. Single process only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from scipy.sparse import csr_matrix

from treetop.assemble.label_graph import walk_graph_stage
from treetop.assemble.label_text_bags import BagsConfig, check_labels, forecast_bags, prepare_bag, train_bag
from treetop.assemble.label_tree import in_clusters, smoothed_clusters
from treetop.assemble.members import Member, fit_members
from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.forecast import Forecast
from treetop.core.work import Job
from treetop.labels.graph import WalkConfig, node_graph
from treetop.model import Model
from treetop.network.vectors.parts import Join, PartsPlan

GROUP = "short text, label text"
HOOKS = ("rows", "soft", "sample", "mix", "penalty")  # places for augmentations


@dataclass(frozen=True, kw_only=True)
class Config(BagsConfig):
    """Settings of `eclare`."""

    walk: WalkConfig = setting(WalkConfig(head_threshold=500), "random walks that build the label graph")
    dropout: float = setting(0.2, "dropout in the label-text blocks and in attention", low=0.0, high=0.99)
    init: Literal["random", "text", "graph"] = setting(
        "random", "initialise free label vectors at random, or with the text or graph part"
    )
    combine: Join = setting("gates", "combine a label's parts by DECAF's gates, or by attention per label")
    bias: bool = setting(True, "learn a bias per label")


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """Words and label vectors with their optimiser states; time on two CPU cores, or on the GPU."""
    return forecast_bags(dataset, config, PartsPlan(graph=csr_matrix((0, 0))))


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Walk between labels, cluster them, then train words, blocks and free vectors; once for each member."""
    check_labels(dataset, job, "eclare")
    return fit_members(
        dataset, config.members, (), job, lambda m, member_job: _member(dataset, config, m, member_job, job)
    )


def _member(dataset: Dataset, config: Config, m: int, member_job: Job, job: Job) -> Member:
    prepared = prepare_bag(dataset, config, m, member_job, job)
    G = walk_graph_stage(dataset, config.walk, member_job, "eclare")
    tree = in_clusters(smoothed_clusters(dataset, config.tfidf, config.tree, G, member_job))
    labels = PartsPlan(
        graph=G, init=config.init, join=config.combine, dropout=config.dropout
    )  # text, graph, free vector
    clusters = replace(labels, graph=node_graph(G, tree.parents[1], tree.sizes[0]))
    return train_bag(dataset, config, prepared, tree, clusters, labels, member_job, bias=config.bias)
