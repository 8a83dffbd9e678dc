"""An encoder fine-tuned on the levels of a label tree, coarse to fine, each starting from the previous one.

The first level scores all its nodes. Every further one scores the children of a text's true parents (teacher forcing,
`tfn`) and of those the level above finds (matcher-aware, `man`); its vectors start from the solution of a linear
problem over the embeddings so far. Heads are thrown away in the end: what stays is the encoder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treetop.assemble.linear.tree import (
    LevelTask,
    LinearConfig,
    Task,
    level_relevance,
    problems_of,
    train_level,
)
from treetop.assemble.staged.level_start import bootstrap, candidate_parents, dense_rows, padded, start_at
from treetop.core.config import setting
from treetop.core.dataset import Csr, Dataset, LabelSet
from treetop.core.errors import ConfigError
from treetop.core.log import logger
from treetop.core.store import Part
from treetop.core.types import Floats, Join, LabelTree, Level, Rank, Ranking, View
from treetop.core.work import Job
from treetop.features.concatenate import concatenated, unit
from treetop.features.encoder.transformer import Transformer
from treetop.kernels.linear.descent import Settings
from treetop.kernels.sparse import rows_of
from treetop.network.build import Blueprint, Learning
from treetop.network.fit import train_network
from treetop.network.head import HeadPlan
from treetop.network.init import Start
from treetop.network.prepare import Prepared
from treetop.network.settings import NetworkConfig, small_batches
from treetop.network.targets import ancestors, node_targets
from treetop.network.watch import sampled_job
from treetop.partition.flat import flat
from treetop.predict.beam import step
from treetop.rank.head import Head
from treetop.rank.linear import Linear
from treetop.shortlist.descend import Descend
from treetop.train.optim import AdamConfig

Vectors = NDArray[np.floating]
MATCHER = LinearConfig(threshold=1e-3)
FOUND = ("indptr", "ids", "score", "own")  # what a ranking is made of


@dataclass(frozen=True, kw_only=True)
class FineConfig(NetworkConfig):
    """How an encoder is fine-tuned level by level."""

    levels: Literal["all", "last"] = setting(
        "all", "fine-tune coarse to fine, or on the finest level only, scoring all its nodes"
    )
    max_clusters: int = setting(32768, "skip levels with more nodes", low=1)
    negatives: Literal["tfn", "tfn+man"] = setting(
        "tfn+man", "teacher-forced candidates (tfn), or also matcher-aware ones (man)"
    )
    train_beam: int = setting(20, "beam of the matcher (man)", low=1)
    matcher: Literal["head", "concat"] = setting(
        "head", "matcher: the trained head, or a linear model on tf-idf + embedding (slower, as published)"
    )
    bootstrap: Literal["linear", "weighted", "inherit", "none"] = setting(
        "linear",
        "initialise node vectors by a linear solve, by one weighted by label counts, from the parent, or at random",
    )
    bootstrap_cost: float = setting(1.0, "misclassification cost C of the linear solve", low=1e-6)
    count_weights: bool = setting(True, "weight each positive node by the number of the text's labels below it")
    cost_sensitive: bool = setting(
        True, "linear models: weight a text's positive nodes by label counts, normalised to sum to 1"
    )
    loss: Literal["squared_hinge", "bce"] = setting("squared_hinge", "loss on every level")
    dropout: float = setting(0.1, "dropout on the view", low=0.0, high=0.99)
    head_optimizer: AdamConfig = setting(AdamConfig(lr=5e-4), "optimiser of the heads")
    epoch_split: tuple[float, ...] = setting((), "split of the epochs over the levels; empty: half of them to the last")


def chosen_levels(sizes: Sequence[int], config: FineConfig) -> list[tuple[int, float]]:
    """(level, share of the epochs) for each level that is fine-tuned on, of a tree with `sizes` nodes on its levels."""
    fitting = [t for t, n in enumerate(sizes) if n <= config.max_clusters]
    if not fitting:
        raise ConfigError(
            f"max_clusters: {config.max_clusters}, but the coarsest level has {sizes[0]} nodes. "
            "Raise it, or lower preliminary_tree.top_branching."
        )
    chosen = fitting[-1:] if config.levels == "last" else fitting
    if not config.epoch_split:
        others = max(1, len(chosen) - 1)
        shares = [0.5 / others] * (len(chosen) - 1) + [0.5 if len(chosen) > 1 else 1.0]
    elif len(config.epoch_split) != len(chosen) or min(config.epoch_split) <= 0:
        raise ConfigError(
            f"epoch_split: {list(config.epoch_split)}, but {len(chosen)} levels of {list(sizes)} nodes are fine-tuned "
            "on. Give one number above 0 for each."
        )
    else:
        shares = [share / sum(config.epoch_split) for share in config.epoch_split]
    return list(zip(chosen, shares, strict=True))


def fine_tune(
    dataset: Dataset, prepared: Prepared, tree: LabelTree, X: Csr, config: FineConfig, *, job: Job
) -> Transformer:
    """The encoder after all chosen levels; `X` is tf-idf, which the matcher `concat` reads with the embedding."""
    descent = _Descent(dataset, prepared, tree, X, config, job)
    chosen = chosen_levels(tree.sizes, config)
    for t, share in chosen:
        logger.info("level of %s nodes: %.1f epochs", f"{tree.sizes[t]:,}", share * config.train.epochs)
        head = descent.learn(t, share)
        if t != chosen[-1][0]:
            descent.look_back(t, head)
    return descent.prepared.features


class _Above(NamedTuple):
    """What a level passes to the next."""

    head: Head
    H: Vectors  # embeddings of all rows
    found: Ranking | None  # nodes; None: not asked for
    held_out: Ranking | None = None  # candidate nodes of the validation documents


class _Descent:
    """State shared by all levels, and what the last one passes on: the encoder and its scores of the rows."""

    def __init__(
        self, dataset: Dataset, prepared: Prepared, tree: LabelTree, X: Csr, config: FineConfig, job: Job
    ) -> None:
        self.dataset, self.prepared, self.tree, self.X, self.config = dataset, prepared, tree, X, config
        self.job = sampled_job(dataset, job)
        task = Task(X, dataset.Y, dataset.relevance)
        self.counts: list[Csr] = level_relevance(task, tree, "induce")
        for counts in self.counts:
            counts.sort_indices()
        self.scaled = level_relevance(task, tree, "induce" if config.cost_sensitive else "off", "l1")
        transformer = prepared.features
        self.view = transformer.poolings[-1].name
        self.width = transformer.encoder.view_width(transformer.poolings[-1])
        self.length = config.embedding_norm if transformer.l2 else 0.0
        self.above: _Above | None = None
        self.parents: Csr | None = None  # (rows x nodes above) whose children are candidates; None: all nodes are

    def learn(self, t: int, share: float) -> Head:
        """Train the encoder and a fresh head on level t."""
        config, prepared = self.config, self.prepared
        plan = HeadPlan(
            view=self.view, view_width=self.width, n=self.tree.sizes[t], dropout=config.dropout, length=self.length
        )
        learning = Learning(
            encoder=config.encoder_optimizer, heads=config.head_optimizer, loss=config.loss, forced=False
        )
        blueprint = Blueprint([plan], flat(self.tree.sizes[t]), learning)
        if self.above is not None:
            self.parents = candidate_parents(self.counts[t - 1], self.above.found)
            given, start = padded(self.parents), self._start(t, self.above, self.parents)
            tree = LabelTree((np.zeros(self.tree.sizes[t - 1], np.int32), self.tree.parents[t]))
            starts = {} if start is None else {self.view: start}
            plan = replace(plan, keep=given.shape[1])
            seen = None if self.above.held_out is None else self.above.held_out.padded(config.train_beam)
            blueprint = Blueprint([plan], tree, learning, given=given, given_held_out=seen, start=starts)
        training = small_batches(self.dataset, config.train, config.min_steps_per_epoch)
        training = replace(training, epochs=share * training.epochs)
        data, inputs = self._data(t), prepared.learning(compiled=config.compile)
        job, name = self._job(t, data), f"fine-{t:02d}-train"
        trained = train_network(data, prepared, inputs, blueprint, training, job, name=name)
        self.prepared = prepared.with_features(with_dropout(trained.features, config.encoder_dropout))
        return trained.ranks[-1]

    def look_back(self, t: int, head: Head) -> None:
        """What the next level needs: embeddings of the texts, and their nodes in the beam."""
        H, found = embed(self.prepared, self.job, f"fine-{t:02d}-views"), None
        if self.config.negatives != "tfn":
            part = self.job.stage(f"fine-{t:02d}-found", lambda: self._find(t, head, H))
            found = Ranking(*(np.asarray(part.arrays[name]) for name in FOUND))
        self.above = _Above(head, H, found, self._find_held_out(t, head))

    def _data(self, t: int) -> Dataset:
        """The texts with the nodes of level t as labels."""
        R, last = self.counts[t], t == len(self.counts) - 1
        Y = sparse.csr_matrix((np.ones(R.nnz, np.float32), R.indices, R.indptr), R.shape)
        labels = self.dataset.labels if last else LabelSet.of([str(i) for i in range(R.shape[1])])
        weighs = self.config.count_weights and bool((R.data != 1).any())
        pairs = self.dataset.filter_pairs if last else None
        return replace(
            self.dataset, Y=Y, labels=labels, features={}, relevance=R if weighs else None, filter_pairs=pairs
        )

    def _job(self, t: int, data: Dataset) -> Job:
        """The job with the nodes of level t as labels of the documents beside the training data."""
        if (documents := self.job.held_out) is None:
            return self.job
        Y = node_targets(documents.Y[:, : self.dataset.n_labels], ancestors(self.tree)[t], self.tree.sizes[t])
        documents = replace(documents, Y=Y, labels=data.labels, features={}, relevance=None, filter_pairs=None)
        return replace(self.job, held_out=documents)

    def _start(self, t: int, above: _Above, parents: Csr) -> Start | None:
        """Initial vectors of level t."""
        kind = self.config.bootstrap
        if kind == "none":
            return None
        if kind == "inherit":
            parent = self.tree.parents[t]
            weight, bias = above.head.weight / np.float32(self.length or 1.0), above.head.bias
            return start_at(weight[parent], np.where(np.isfinite(bias), bias, np.float32(-1.0))[parent])
        part = self.job.stage(f"fine-{t:02d}-start", lambda: self._solve(t, np.asarray(above.H, np.float32), parents))
        return start_at(np.array(part.arrays["vectors"]), np.array(part.arrays["biases"]))

    def _solve(self, t: int, H: Floats, parents: Csr) -> Part:
        H = unit(H) if self.length else H  # longer vectors would ask too much of float32 at such a cost
        weights = self.counts[t] if self.config.bootstrap == "weighted" else None
        inside = parents.tocsc()
        problems = problems_of(self.counts[t], weights)
        task = LevelTask(dense_rows(H), H.shape, problems, (inside, inside), self.job.seed & 0x7FFFFFFF)
        cost = self.config.bootstrap_cost
        solver = Settings(cost_positive=cost, cost_negative=cost, threshold=0.0)
        vectors, biases = bootstrap(task, self.tree, t, solver)
        return Part("stage.start.1", {}, {"vectors": vectors / np.float32(self.length or 1.0), "biases": biases})

    def _find(self, t: int, head: Head, H: Vectors) -> Part:
        """The best nodes of level t for every row, below those found on the level above."""
        above = None if self.above is None else self.above.found
        if self.config.matcher == "concat":
            view = concatenated(self.X, H)
            found = self._best(t, self._match(t, view), view, MATCHER.join(), above)
        else:
            found = self._best(t, head, H, self._join, above)
        return Part("stage.found.1", {}, {name: getattr(found, name) for name in FOUND})

    @property
    def _join(self) -> Join:
        return Join("hinge3" if self.config.loss == "squared_hinge" else "sigmoid", "path")

    def _best(self, t: int, rank: Rank, view: View, join: Join, above: Ranking | None) -> Ranking:
        level = Level("view", Descend.of(self.tree, t), rank, join)
        return step(level, {"view": view}, above, self.config.train_beam)

    def _find_held_out(self, t: int, head: Head) -> Ranking | None:
        """The same for the validation documents; None if a trained head is not the matcher."""
        above, config, documents = self.above, self.config, self.job.held_out
        if documents is None or config.negatives == "tfn" or config.matcher != "head":
            return None
        if above is not None and above.held_out is None:
            return None
        features = self.prepared.features
        H = self.prepared.vectors(tokens=features.tokenizer.encode(documents.texts))
        view = H[features.view_name(features.poolings[-1])]
        return self._best(t, head, view, self._join, None if above is None else above.held_out)

    def _match(self, t: int, X: Csr) -> Linear:
        """A linear model of level t over the same candidates, on tf-idf and embedding."""
        inside = None if self.parents is None else self.parents.tocsc()
        problems = problems_of(self.counts[t], self.scaled[t])
        both = None if inside is None else (inside, inside)
        task = LevelTask(rows_of(X), X.shape, problems, both, self.job.seed & 0x7FFFFFFF)
        return train_level(task, self.tree, t, MATCHER)


def embed(prepared: Prepared, job: Job, name: str) -> Vectors:
    """(rows, width) vectors of all rows by the current encoder."""

    def make() -> Part:
        vectors = prepared.vectors()[prepared.features.view_name(prepared.features.poolings[-1])]
        return Part("stage.views.1", {}, {"view": vectors.astype(np.float16)})

    return np.asarray(job.stage(name, make).arrays["view"])


def with_dropout(transformer: Transformer, dropout: float | None) -> Transformer:
    """The same encoder with its own dropout, which is not stored."""
    if dropout is None:
        return transformer
    return Transformer.from_part(transformer.to_part(), dropout=dropout, attention_dropout=dropout)
