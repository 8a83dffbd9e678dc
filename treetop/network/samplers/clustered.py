"""Batches for dual encoders: similar queries, each batch with a pool of labels (`pools.py`).

A batch is a cluster of queries, so that the labels of one are hard negatives of the others. Clusters and hard negatives
are mined by the model itself every few epochs; they are part of the checkpoints, so that a run that goes on draws what
it would have drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from treetop.core.errors import TrainingError
from treetop.kernels.cluster.dense_halving import leaves
from treetop.network.samplers.pools import PoolConfig, Pools
from treetop.train.batches import Batch, Plan, Rows

Mine = Callable[[bool, bool], tuple[Tensor | None, Tensor | None]]


class Mining:
    """The latest clusters of queries and hard negatives of documents."""

    def __init__(self, queries: int, documents: int, config: PoolConfig) -> None:
        self.leaf = torch.zeros(queries if config.clustered else 0, dtype=torch.int32)
        self.negatives = torch.full((documents, config.kept), -1, dtype=torch.int32)
        self.epoch = torch.full((), -1, dtype=torch.int64)  # when that was; -1: not yet

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint keeps, so that a run that goes on draws what it would have drawn."""
        return {"leaf": self.leaf, "negatives": self.negatives, "epoch": self.epoch}


@dataclass(frozen=True, kw_only=True)
class PoolPlan(Plan):
    """Batches with pools; `mine(clusters, negatives)` gives the queries' vectors and the documents' hard negatives."""

    pools: Pools
    mining: Mining
    config: PoolConfig
    mine: Mine

    @property
    def steps(self) -> int:
        """Batches in one epoch: a power of two where a batch is a cluster."""
        n = len(self.rows)
        if n == 0:
            return 0
        if self.config.clustered and self.config.cluster_size == 0:
            return 1 << self.config.splits(n, self.batch, 0)
        return max(1, round(n / self.batch))

    def epoch(self, number: int) -> list[Rows]:
        """The queries of each batch of an epoch, by the current clusters."""
        rng = np.random.default_rng([self.seed, 1, number])
        if not self.config.clustered or int(self.mining.epoch) < 0:
            return np.array_split(self.rows[rng.permutation(len(self.rows))], self.steps)
        leaf = self.mining.leaf.numpy()
        count = int(leaf.max(initial=0)) + 1
        turn = rng.permutation(count)  # clusters come in an order of their own each epoch
        order = np.argsort(turn[leaf], kind="stable")
        if count != self.steps:
            return np.array_split(self.rows[order], self.steps)
        ends = np.cumsum(np.bincount(turn[leaf], minlength=count))[:-1]
        return np.split(self.rows[order], ends)

    def walk(self, start: int, stop: int) -> Iterator[Batch]:
        cut: list[Rows] = []
        for step in range(start, stop):
            epoch, place = divmod(step, self.steps)
            if place == 0:
                self.refresh(epoch)
            if not cut or place == 0:
                cut = self.epoch(epoch)
            yield self.pools.batch(cut[place], self.mining.negatives.numpy(), step, self.rank, self.size)

    def refresh(self, epoch: int) -> None:
        """Recompute clusters and hard negatives where that is due."""
        config, mining = self.config, self.mining
        if not config.due(epoch) or int(mining.epoch) >= epoch:
            return
        vectors, negatives = self.mine(config.clustered, config.hard_negatives > 0)
        if vectors is not None and not torch.isfinite(vectors).all():
            raise TrainingError(
                f"training: text embeddings are not finite before epoch {epoch}. Lower the learning rate, or set "
                "clip_norm=1.0."
            )
        if vectors is not None:
            splits = config.splits(len(self.rows), self.batch, epoch)
            mining.leaf.copy_(leaves(vectors, splits, seed=self.seed * 10_007 + epoch))
        if negatives is not None:
            mining.negatives.copy_(negatives)
        mining.epoch.fill_(epoch)
