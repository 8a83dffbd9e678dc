"""Balanced 2-means: recursive halving, then neighbours merged into a tree of the given branching factor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from treetop.core.config import setting
from treetop.core.errors import ConfigError
from treetop.core.types import LabelTree
from treetop.kernels.cluster.halving import SAME_SET, SMALL_GAIN, Options, balanced_leaves
from treetop.partition.flat import flat
from treetop.partition.tree import chain, shallow


@dataclass(frozen=True, kw_only=True)
class BalancedConfig:
    """Settings of a balanced tree."""

    max_leaf: int = setting(100, "maximum labels per leaf", low=1)
    branching: int = setting(16, "branching factor", low=2)
    top_branching: int | None = setting(None, "maximum nodes on the first level; null: `branching`", low=1)
    shallow: bool = setting(False, "one level of clusters only")
    stop_when: Literal["stable", "gain"] = setting(
        "stable", "stop when the assignment is stable (as PECOS does), or when the gain is below eps"
    )
    max_iter: int = setting(20, "maximum k-means iterations per split", low=1)
    eps: float = setting(1e-4, "minimum improvement of the objective (stop_when=gain)", low=0.0)
    spherical: bool = setting(True, "spherical k-means (cosine)")
    per_node: bool = setting(False, "split a node only while it exceeds max_leaf (AttentionXML)")

    def __post_init__(self) -> None:
        if self.per_node and not self.shallow:
            raise ConfigError("per_node: leaves of unequal depth need shallow=true.")

    @property
    def options(self) -> Options:
        """How a node is halved."""
        same = self.stop_when == "stable"
        return Options(SAME_SET if same else SMALL_GAIN, self.max_iter if same else 1000, self.eps, self.spherical)

    def grow(self, Z: Any, *, seed: int) -> LabelTree:
        return balanced(Z, self, seed=seed)


def balanced(Z: Any, config: BalancedConfig, *, seed: int) -> LabelTree:
    """A tree over the rows of Z (csr or dense); labels with an empty row keep a place."""
    n = Z.shape[0]
    if n <= config.max_leaf:
        return flat(n)
    depth = max(1, math.ceil(math.log2(n / config.max_leaf)))
    if 2**depth > n:
        raise ConfigError(f"max_leaf: {config.max_leaf} would need {2**depth} leaves for {n} labels. Use a larger one.")
    leaf = balanced_leaves(
        Z, depth, seed=seed, max_leaf=config.max_leaf if config.per_node else 0, options=config.options
    )
    n_leaves = int(leaf.max()) + 1
    if config.shallow:
        return shallow(leaf, n_leaves)
    return chain(leaf, n_leaves, width=config.branching, top=config.top_branching or config.branching)


def sizes_of(n: int, config: BalancedConfig) -> list[int]:
    """Nodes on each level of a tree over `n` labels, known before it is made (`per_node`: at most)."""
    if n <= config.max_leaf:
        return [n]
    sizes = [n, 2 ** max(1, math.ceil(math.log2(n / config.max_leaf)))]
    while not config.shallow and sizes[-1] > (config.top_branching or config.branching):
        sizes.append(-(-sizes[-1] // config.branching))
    return sizes[::-1]


def check_resolutions(resolutions: Sequence[int]) -> None:
    """Refuse numbers of nodes that halving cannot give."""
    wrong = [size for size in resolutions if size < 1 or size & (size - 1)]
    if wrong or list(resolutions) != sorted(set(resolutions)):
        raise ConfigError(f"resolutions: {list(resolutions)}; allowed: increasing powers of two, such as [64, 512].")


def at_resolutions(Z: Any, resolutions: Sequence[int], options: Options, *, seed: int) -> LabelTree:
    """A tree with exactly these numbers of nodes on its levels (powers of two, coarse to fine), then the labels."""
    check_resolutions(resolutions)
    n, finest = Z.shape[0], resolutions[-1]
    if finest > n:
        raise ConfigError(f"resolutions: {finest} clusters for {n} labels; at most as many as labels are allowed.")
    leaf = balanced_leaves(Z, finest.bit_length() - 1, seed=seed, options=options)
    parents = [leaf.astype(np.int32)]
    for fine, coarse in pairwise(reversed(resolutions)):
        parents.append((np.arange(fine) // (fine // coarse)).astype(np.int32))
    parents.append(np.zeros(resolutions[0], np.int32))
    return LabelTree(tuple(reversed(parents)))
