"""Balanced 2-means: equal halves again and again, then neighbours joined to a tree of the wanted width."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from treetop.core.config import setting
from treetop.core.errors import ConfigError
from treetop.core.types import LabelTree
from treetop.kernels.kmeans import SAME_SET, SMALL_GAIN, Options, balanced_leaves
from treetop.partition.flat import flat
from treetop.partition.tree import chain, shallow


@dataclass(frozen=True, kw_only=True)
class BalancedConfig:
    """Settings of a balanced tree."""

    max_leaf: int = setting(100, "labels in a leaf at most", low=1)
    width: int = setting(16, "children of a node", low=2)
    top: int | None = setting(None, "nodes on the first level at most; null: as many as `width`")
    shallow: bool = setting(False, "one level of clusters only")
    rule: Literal["same", "gain"] = setting("same", "stop when halves stay the same (PECOS) or gain under eps")
    max_iter: int = setting(20, "rounds of a split at most", low=1)
    eps: float = setting(1e-4, "smallest gain of the rule 'gain'", low=0.0)
    spherical: bool = setting(True, "compare directions, not distances")
    per_node: bool = setting(False, "split each node only while it is too large (AttentionXML)")

    def __post_init__(self) -> None:
        if self.per_node and not self.shallow:
            raise ConfigError("per_node: leaves of unequal depth need shallow=true.")


def balanced(Z: Any, config: BalancedConfig, *, seed: int) -> LabelTree:
    """A tree over the rows of Z (csr or dense); labels with an empty row keep a place."""
    n = Z.shape[0]
    if n <= config.max_leaf:
        return flat(n)
    depth = max(1, math.ceil(math.log2(n / config.max_leaf)))
    if 2**depth > n:
        raise ConfigError(f"max_leaf: {config.max_leaf} would need {2**depth} leaves for {n} labels. Use a larger one.")
    rule = SAME_SET if config.rule == "same" else SMALL_GAIN
    most = config.max_iter if config.rule == "same" else 1000
    options = Options(rule, most, config.eps, config.spherical)
    leaf = balanced_leaves(Z, depth, seed=seed, max_leaf=config.max_leaf if config.per_node else 0, options=options)
    n_leaves = int(leaf.max()) + 1
    if config.shallow:
        return shallow(leaf, n_leaves)
    return chain(leaf, n_leaves, width=config.width, top=config.top or config.width)
