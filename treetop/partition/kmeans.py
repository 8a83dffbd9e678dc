"""k-means clusters of any size on each level (Bonsai): wide, shallow trees that keep tail labels separate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treetop.core.config import setting
from treetop.core.dataset import Csr
from treetop.core.types import LabelTree
from treetop.kernels.cluster.kmeans import grouped
from treetop.partition.flat import flat


@dataclass(frozen=True, kw_only=True)
class KmeansConfig:
    """Settings of a k-means tree."""

    branching: int = setting(100, "maximum branching factor", low=2)
    max_leaf: int = setting(100, "maximum labels per leaf; larger nodes are split again", low=1)
    max_depth: int = setting(3, "maximum levels of clusters", low=1, high=100)
    eps: float = setting(1e-4, "stopping tolerance on the mean similarity", low=0.0)
    max_iter: int = setting(20, "maximum k-means iterations", low=1)

    def grow(self, Z: Csr, *, seed: int) -> LabelTree:
        return kmeans(Z, self, seed=seed)


def kmeans(Z: Csr, config: KmeansConfig, *, seed: int) -> LabelTree:
    """A tree over the rows of Z; a leaf above the last level is carried down by nodes that copy their parent."""
    n = Z.shape[0]
    if n <= config.max_leaf:
        return flat(n)
    seeds = np.random.default_rng(seed).integers(0, 2**31 - 1, config.max_depth).tolist()
    nodes: list[NDArray[np.int64]] = [np.arange(n)]
    parents: list[NDArray[np.int32]] = []
    copies: list[NDArray[np.bool_]] = []
    for level in range(config.max_depth):
        large = [i for i, node in enumerate(nodes) if len(node) > config.max_leaf]
        if not large:
            break
        wide = [nodes[i] for i in large]
        groups = grouped(Z, wide, config.branching, seed=seeds[level], max_iter=config.max_iter, eps=config.eps)
        split = dict(zip(large, groups, strict=True))
        below = [(i, child, i not in split) for i, node in enumerate(nodes) for child in split.get(i, [node])]
        parents.append(np.array([i for i, _, _ in below], np.int32))
        copies.append(np.array([copied for _, _, copied in below]))
        nodes = [child for _, child, _ in below]
    leaf = np.empty(n, np.int32)
    for i, node in enumerate(nodes):
        leaf[node] = i
    return LabelTree((*parents, leaf), (*copies, np.zeros(n, bool)))
