import numpy as np
import pytest
from scipy import sparse

from treetop.core.errors import ConfigError
from treetop.kernels.cluster.halving import SAME_SET, SMALL_GAIN, Options, balanced_leaves, halve, halve_dense
from treetop.kernels.runtime import threads
from treetop.kernels.sparse import rows_of
from treetop.partition.balanced import BalancedConfig, balanced, sizes_of
from treetop.partition.flat import flat
from treetop.partition.kmeans import KmeansConfig, kmeans
from treetop.partition.tree import chain

# sheet: data set, labels, max_leaf, nr_splits, min_codes -> chain
CHAINS = [
    (3956, 16, 16, 16, [16, 256, 3956]),
    (3956, 16, 8, 8, [4, 32, 256, 3956]),
    (30938, 16, 16, 128, [128, 2048, 30938]),
    (13330, 16, 8, 128, [128, 1024, 13330]),
    (501070, 16, 8, 64, [64, 512, 4096, 32768, 501070]),
    (501070, 100, 32, 32, [8, 256, 8192, 501070]),
    (670091, 32, 16, 128, [128, 2048, 32768, 670091]),
    (2812281, 100, 16, 128, [128, 2048, 32768, 2812281]),
]


@pytest.mark.parametrize(("labels", "max_leaf", "width", "top", "sizes"), CHAINS)
def test_chains_of_the_published_settings(labels, max_leaf, width, top, sizes):
    depth = max(1, int(np.ceil(np.log2(labels / max_leaf))))
    leaf = (np.arange(labels) * 2**depth // labels).astype(np.int32)
    assert chain(leaf, 2**depth, width=width, top=top).sizes == sizes


def clusters(n, d, groups, seed=0):
    """Rows around `groups` directions, shuffled."""
    random = np.random.default_rng(seed)
    centre = sparse.random(groups, d, 8 / d, random_state=random, format="csr")
    which = random.permutation(np.arange(n) % groups)
    noise = sparse.random(n, d, 2 / d, random_state=random, format="csr") * 0.1
    Z = sparse.csr_matrix(centre[which] + noise, dtype=np.float32)
    return which, Z


@pytest.mark.parametrize("rule", [SAME_SET, SMALL_GAIN])
def test_sparse_and_dense_halves_agree_in_quality(rule):
    which, Z = clusters(200, 300, 2)
    options = Options(rule, 50)
    for right in (
        halve(rows_of(Z), np.arange(200, dtype=np.uint32), np.array([3, 4]), options, np.zeros(300, np.uint32)),
        halve_dense(Z.toarray(), np.array([3, 4]), options),
    ):
        assert right.sum() == 100
        assert max((which[right] == 0).mean(), (which[right] == 1).mean()) > 0.95


def test_leaves_are_balanced_and_do_not_depend_on_threads():
    _, Z = clusters(1000, 400, 16)
    with threads.limited(1):
        one = balanced_leaves(Z, 4, seed=3)
    with threads.limited(3):
        many = balanced_leaves(Z, 4, seed=3)
    assert np.array_equal(one, many)
    sizes = np.bincount(one)
    assert len(sizes) == 16 and sizes.max() - sizes.min() <= 1
    assert not np.array_equal(one, balanced_leaves(Z, 4, seed=4))
    dense = np.bincount(balanced_leaves(Z.toarray(), 4, seed=3))
    assert len(dense) == 16 and dense.max() - dense.min() <= 1


def test_ties_and_empty_rows_keep_a_place():
    Z = sparse.csr_matrix((37, 5), dtype=np.float32)
    assert np.bincount(balanced_leaves(Z, 3, seed=0)).tolist() == [4, 5, 4, 5, 4, 5, 5, 5]
    assert np.bincount(balanced_leaves(Z, 9, seed=0, max_leaf=6)).max() <= 6


@pytest.mark.parametrize("dense", [False, True])
def test_splits_begin_at_rows_with_features(dense):
    """From two empty rows all scores are equal: the halves would be the row numbers and say nothing of the labels."""
    random = np.random.default_rng(1)
    described = sparse.random(80, 30, 0.5, random_state=random, format="csr", dtype=np.float32)
    Z = sparse.vstack([described, sparse.csr_matrix((240, 30), dtype=np.float32)]).tocsr()[random.permutation(320)]
    by_number = np.arange(320) >= 160
    for seed in range(20):
        leaf = balanced_leaves(Z.toarray() if dense else Z, 1, seed=seed, options=Options(max_iter=1))
        assert not np.array_equal(leaf, by_number)


@pytest.mark.parametrize("settings", [{}, {"max_leaf": 16, "top_branching": 3}, {"branching": 2}, {"shallow": True}])
@pytest.mark.parametrize("n", [1, 5, 6, 97, 100])
def test_sizes_are_known_beforehand(n, settings):
    config = BalancedConfig(**{"max_leaf": 5, "branching": 4, **settings})
    Z = sparse.random(n, 30, 0.5, format="csr", dtype=np.float32, random_state=0)
    assert balanced(Z, config, seed=0).sizes == sizes_of(n, config)


def test_balanced_tree_and_refusals():
    _, Z = clusters(500, 200, 8)
    tree = balanced(Z, BalancedConfig(max_leaf=20, branching=4), seed=0)
    assert tree.sizes == [2, 8, 32, 500]
    assert balanced(Z, BalancedConfig(max_leaf=500), seed=0).sizes == flat(500).sizes == [500]
    per_node = balanced(Z, BalancedConfig(max_leaf=20, shallow=True, per_node=True, stop_when="gain"), seed=0)
    assert len(per_node.sizes) == 2 and np.bincount(per_node.parents[1]).max() <= 20
    with pytest.raises(ConfigError, match="leaves of unequal depth need shallow=true"):
        BalancedConfig(per_node=True)
    with pytest.raises(ConfigError, match="max_leaf: 1 would need 512 leaves for 500 labels"):
        balanced(Z, BalancedConfig(max_leaf=1), seed=0)


def test_kmeans_tree_pads_shallow_leaves():
    which, Z = clusters(600, 300, 6)
    tree = kmeans(Z, KmeansConfig(branching=4, max_leaf=120, max_depth=3), seed=0)
    assert tree.sizes[-1] == 600 and len(tree.copies) == len(tree.parents)
    for level in range(1, len(tree.sizes) - 1):
        copies = tree.copies[level]
        _, counts = np.unique(tree.parents[level], return_counts=True)
        only = np.flatnonzero(counts == 1)
        assert set(tree.parents[level][copies]) <= set(only)  # a copy is its parent's only child
    flat_tree = kmeans(Z, KmeansConfig(branching=6, max_leaf=100, max_depth=1), seed=1)
    leaf = flat_tree.parents[-1]
    pure = sum(np.bincount(which[leaf == c]).max() for c in range(flat_tree.sizes[0]))
    assert pure / 600 > 0.6  # chance is 1 / 6
