import numpy as np
import pytest

torch = pytest.importorskip("torch")
from treetop.kernels import reference
from treetop.kernels.cluster.dense_halving import leaves


def vectors(n, width=5, seed=0):
    return np.random.default_rng(seed).normal(size=(n, width)).astype(np.float32)


@pytest.mark.parametrize(("n", "depth"), [(1, 0), (2, 1), (3, 1), (7, 2), (16, 4), (50, 3), (101, 5)])
@pytest.mark.parametrize("seed", [0, 1])
def test_equals_the_plain_way(n, depth, seed):
    V = vectors(n, seed=seed)
    made = leaves(torch.from_numpy(V), depth, seed=seed).numpy()
    assert made.tolist() == reference.halved_leaves(V, depth, seed)
    sizes = np.bincount(made, minlength=2**depth)
    assert len(sizes) == 2**depth and sizes.max() - sizes.min() <= 1


def test_finds_clusters_that_are_there():
    rng = np.random.default_rng(0)
    centres = np.eye(4, 6)
    truth = rng.permutation(np.repeat(np.arange(4), 25))
    V = (centres[truth] + 0.05 * rng.normal(size=(100, 6))).astype(np.float32)
    made = leaves(torch.from_numpy(3 * V), 2, seed=1).numpy()
    assert len({(a, b) for a, b in zip(truth.tolist(), made.tolist(), strict=True)}) == 4


def test_equal_rows_are_shared_out():
    made = leaves(torch.ones(9, 3), 3, seed=0)
    assert sorted(torch.bincount(made).tolist()) == [1] * 7 + [2]
