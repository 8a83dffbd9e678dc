import dataclasses

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from toy_pools import LABELS, N, data
from treetop.core.errors import TrainingError
from treetop.network.samplers.clustered import Mining, PoolPlan
from treetop.network.samplers.pools import PoolConfig, Pools

VECTORS = np.random.default_rng(5).normal(size=(N, 4)).astype(np.float32)


def plan(config, *, batch=7, seed=0, mined=None, rank=0, size=1):
    known, *_ = data()
    rows = np.flatnonzero(np.diff(known.indptr) > 0)
    mining = Mining(len(rows), N, config)

    def mine(clusters, negatives):
        if mined is not None:
            mined.append((clusters, negatives))
        lists = np.random.default_rng(len(mined or [])).integers(0, LABELS, (N, config.kept)).astype(np.int32)
        return torch.from_numpy(VECTORS[rows]) if clusters else None, torch.from_numpy(lists) if negatives else None

    pools = Pools(known, config, seed)
    return PoolPlan(rows, batch, seed, rank=rank, size=size, pools=pools, mining=mining, config=config, mine=mine)


def test_an_epoch_holds_every_query_once_in_clusters_of_a_batch():
    config = PoolConfig(size=12, mine_from=1, mine_every=2)
    made = plan(config)
    assert made.steps & (made.steps - 1) == 0  # a power of two
    batches = list(made.walk(0, 4 * made.steps))
    for epoch in range(4):
        part = batches[epoch * made.steps : (epoch + 1) * made.steps]
        assert sorted(np.concatenate([b.rows for b in part]).tolist()) == made.rows.tolist()
    leaf = made.mining.leaf.numpy()
    late = [{int(leaf[np.searchsorted(made.rows, row)]) for row in b.rows} for b in batches[-made.steps :]]
    assert all(len(numbers) == 1 for numbers in late)
    early = [{int(leaf[np.searchsorted(made.rows, row)]) for row in b.rows} for b in batches[: made.steps]]
    assert any(len(numbers) > 1 for numbers in early)  # random before the first clusters
    orders = [[b.rows[0] for b in batches[e * made.steps : (e + 1) * made.steps]] for e in (1, 2)]
    assert orders[0] != orders[1]


def test_refreshed_when_due_and_not_again():
    mined = []
    made = plan(PoolConfig(size=12, mine_from=2, mine_every=3), mined=mined)
    list(made.walk(0, 9 * made.steps))
    assert mined == [(True, True)] * 3 and int(made.mining.epoch) == 8
    mined.clear()
    list(made.walk(8 * made.steps, 8 * made.steps + 1))
    list(made.walk(5 * made.steps, 5 * made.steps + 1))  # an old batch, asked for again to name its rows
    assert mined == []


def test_vectors_that_are_no_numbers_are_not_clustered():
    made = plan(PoolConfig(size=12, mine_from=0, mine_every=1))
    broken = dataclasses.replace(made, mine=lambda *_: (torch.full((len(made.rows), 4), torch.nan), None))
    with pytest.raises(TrainingError, match="before epoch 0"):
        next(broken.walk(0, 1))


@pytest.mark.parametrize(
    "changes", [{}, {"cluster_size": 2, "curriculum": (2,)}, {"clustered": False}, {"hard_negatives": 0}]
)
def test_a_walk_that_goes_on_gives_the_same_batches(changes):
    config = PoolConfig(**{"size": 12, "mine_from": 1, "mine_every": 2, **changes})
    whole = plan(config)
    total = 5 * whole.steps
    expected = list(whole.walk(0, total))
    for stop in range(1, total, 3):
        first, second = plan(config), plan(config)
        list(first.walk(0, stop))
        for name, tensor in second.mining.state().items():  # what a checkpoint does
            tensor.copy_(first.mining.state()[name])
        for a, b in zip(second.walk(stop, total), expected[stop:], strict=True):
            assert np.array_equal(a.rows, b.rows) and np.array_equal(a.pool, b.pool)
            assert np.array_equal(a.positive, b.positive) and np.array_equal(a.ignored, b.ignored)


def test_processes_share_a_batch():
    config = PoolConfig(size=12, mine_from=1, mine_every=2)
    alone = plan(config).walk(0, 8)
    for whole, *shares in zip(alone, *(plan(config, rank=rank, size=2).walk(0, 8) for rank in (0, 1)), strict=True):
        assert np.array_equal(np.concatenate([share.rows for share in shares])[: whole.total], whole.everyone)
        assert all(np.array_equal(share.everyone, whole.everyone) for share in shares)
        assert all(np.array_equal(share.pool, whole.pool) for share in shares)


@pytest.mark.parametrize("clustered", [False, True])
def test_more_processes_than_queries_make_the_batches_of_one(clustered):
    config = PoolConfig(size=12, mine_from=1, mine_every=2, clustered=clustered, hard_negatives=0)
    assert len({plan(config, batch=3, size=size).steps for size in (1, 2, 50)}) == 1
    assert [len(b.rows) for b in plan(config, batch=3, size=50).walk(0, 2)] == [1, 1]
