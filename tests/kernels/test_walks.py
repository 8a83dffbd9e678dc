import numpy as np
import pytest
from scipy import sparse

from treetop.kernels import reference
from treetop.kernels.graph.walks import visited
from treetop.kernels.runtime import threads
from treetop.kernels.sparse import rows_of


def random_targets(rng, n, labels, share):
    return sparse.csr_matrix((rng.random((n, labels)) < share).astype(np.float32))


def walk(Y, **options):
    chosen = {"hops": 50, "restart": 0.8, "keep": 4, "seed": 3, **options}
    return visited(rows_of(Y.T.tocsr()), rows_of(Y), **chosen), chosen


@pytest.mark.parametrize("restart", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(("n", "labels", "share"), [(40, 12, 0.2), (5, 30, 0.05), (1, 1, 1.0), (3, 4, 0.0)])
def test_visits_are_those_of_the_slow_twin(n, labels, share, restart):
    Y = random_targets(np.random.default_rng(n + labels), n, labels, share)
    (ids, visits), chosen = walk(Y, restart=restart)
    expected = reference.walk_visits(Y.toarray(), chosen["hops"], restart, chosen["keep"], chosen["seed"])
    found = [[(int(i), int(v)) for i, v in zip(*row, strict=True) if v] for row in zip(ids, visits, strict=True)]
    assert found == expected


def test_threads_change_nothing_and_seeds_do():
    Y = random_targets(np.random.default_rng(0), 3000, 2500, 0.002)
    with threads.limited(1):
        one = walk(Y)[0]
    with threads.limited(3):
        three = walk(Y)[0]
    assert np.array_equal(one[0], three[0]) and np.array_equal(one[1], three[1])
    assert not np.array_equal(one[0], walk(Y, seed=4)[0][0])


def test_with_restarts_only_visits_follow_the_one_hop_probabilities():
    Y = random_targets(np.random.default_rng(1), 60, 8, 0.3)
    dense = Y.toarray()
    dense = dense[dense.any(1)]
    step = (dense / dense.sum(0)).T @ (dense / dense.sum(1, keepdims=True))
    ids, visits = walk(Y, hops=20_000, restart=1.0, keep=8)[0]
    found = np.zeros((8, 8))
    np.put_along_axis(found, ids.astype(np.int64), visits / 20_000, 1)
    np.testing.assert_allclose(found, step, atol=0.02)
