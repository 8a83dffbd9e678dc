"""Pools against a plain version with sets and loops."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
from toy_pools import LABELS, N, data
from treetop.network.samplers import pools
from treetop.network.samplers.pools import (
    PoolConfig,
    Pools,
    draw_negatives,
    most_shared,
    transposed,
    without_positives,
)

SHARED = ("everyone", "pool", "positive", "value", "ignored")  # the same in every process


def slow_fill(rows, drawn, hard, Y, config):
    """The fill order, one label at a time."""
    pool = []

    def add(labels):
        counts = Counter(label for label in labels if label not in pool)
        for label in sorted(counts, key=lambda label: (-counts[label], label)):
            if len(pool) < config.size:
                pool.append(label)

    add(drawn.tolist())
    if config.size - len(pool) > config.min_free:
        add(hard.tolist())
    add([label for row in rows for label in np.flatnonzero(Y[row]).tolist()])
    return sorted(pool)


def slow_pairs(rows, pool, Y, V, text):
    positive, ignored = {}, set()
    for i, row in enumerate(rows):
        mine = set(np.flatnonzero(Y[row]).tolist())
        for j, label in enumerate(pool):
            if label in mine:
                positive[i * len(pool) + j] = Y[row, label]
            elif V[row, label] or any(text[label] == text[other] >= 0 for other in mine):
                ignored.add(i * len(pool) + j)
    return positive, ignored


def test_a_pool_that_is_not_filled_holds_what_was_drawn_however_large_it_may_be():
    """In-batch negatives stay in-batch negatives where there are few labels."""
    known, Y, _, _ = data(0)
    pools_ = Pools(known, PoolConfig(size=LABELS + 1, positives=1, hard_negatives=0, fill=False), 0)
    batch = pools_.batch(np.array([0, 1]), np.full((N, 0), -1, np.int32), 0, 0, 1)
    assert len(batch.pool) <= 2 and all(Y[[0, 1], label].any() for label in batch.pool)


@pytest.mark.parametrize("size", [1, 5, 12, 24])
@pytest.mark.parametrize("least", [0, 3])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_pool_and_pairs_equal_the_plain_way(size, least, seed):
    known, Y, V, text = data(seed)
    config = PoolConfig(size=size, min_free=least, positives=2, hard_negatives=3)
    pools = Pools(known, config, seed)
    rng = np.random.default_rng(seed)
    rows = rng.permutation(N)[:9]
    drawn, hard = pools.draw_positives(rows, rng), rng.integers(0, LABELS, 27)
    pool = pools.fill(rows, drawn, hard)
    assert pool.tolist() == slow_fill(rows, drawn, hard, Y, config)
    positive, value, ignored = pools.pairs(rows, pool)
    expected, barred = slow_pairs(rows, pool.tolist(), Y, V, text)
    assert dict(zip(positive.tolist(), value.tolist(), strict=True)) == pytest.approx(expected)
    assert set(ignored.tolist()) == barred and len(ignored) == len(barred)


def test_without_negatives_the_room_goes_to_more_positives():
    known, Y, _, _ = data()
    pools = Pools(known, PoolConfig(size=20, positives=1), 0)
    rows = np.arange(10)
    drawn = pools.draw_positives(rows, np.random.default_rng(0))
    pool = pools.fill(rows, drawn, np.zeros(0, np.int64))
    every = {label for row in rows for label in np.flatnonzero(Y[row])}
    assert set(np.unique(drawn)) < set(pool.tolist()) == every
    alone = Pools(known, PoolConfig(size=20, positives=1, fill=False), 0)
    assert alone.fill(rows, drawn, np.array([2, 2])).tolist() == np.unique([*drawn, 2]).tolist()


def test_only_some_documents_bring_positives():
    known, Y, _, _ = data()
    rows = np.array([2, 5, 17])
    made = known.only(rows)
    assert made.indptr[-1] == (Y[rows] > 0).sum() and made.n_labels == LABELS
    for row in range(N):
        part = slice(made.indptr[row], made.indptr[row + 1])
        expected = np.flatnonzero(Y[row]) if row in rows else []
        assert made.indices[part].tolist() == list(expected)
        assert made.values[part].tolist() == Y[row][list(expected)].tolist()


def test_every_label_where_the_budget_says_so():
    known, *_ = data()
    for size in (0, LABELS, 100):
        pools = Pools(known, PoolConfig(size=size), 0)
        assert pools.fill(np.arange(3), np.array([1]), np.array([2])).tolist() == list(range(LABELS))


def test_drawn_positives_are_positives_and_all_have_a_chance():
    known, Y, _, _ = data()
    pools = Pools(known, PoolConfig(positives=400), 0)
    for row in range(N):
        drawn = pools.draw_positives(np.array([row]), np.random.default_rng(row))
        mine = set(np.flatnonzero(Y[row]).tolist())
        assert set(drawn.tolist()) == mine and len(drawn) == (400 if mine else 0)
    every = Pools(known, PoolConfig(positives=0), 0).draw_positives(np.arange(4), np.random.default_rng(0))
    assert sorted(every.tolist()) == sorted(label for row in range(4) for label in np.flatnonzero(Y[row]))


def test_negatives_are_drawn_without_replacement():
    lists = np.array([[5, 6, 7, 8], [1, -1, -1, -1], [-1, -1, -1, -1]], np.int32)
    for seed in range(20):
        found = draw_negatives(lists, 3, np.random.default_rng(seed))
        assert len(found) == 4 and len(set(found.tolist())) == 4 and set(found.tolist()) <= {5, 6, 7, 8, 1}
    assert len(draw_negatives(lists, 0, np.random.default_rng(0))) == 0
    seen = {label for seed in range(50) for label in draw_negatives(lists[:1], 1, np.random.default_rng(seed)).tolist()}
    assert seen == {5, 6, 7, 8}


@given(st.lists(st.integers(0, 6), max_size=30))
@settings(max_examples=40, deadline=None)
def test_most_shared_first(ids):
    counts = Counter(ids)
    assert most_shared(np.array(ids, np.int64)).tolist() == sorted(counts, key=lambda label: (-counts[label], label))


def test_hard_negatives_leave_out_what_is_no_negative():
    known, Y, V, text = data()
    rng = np.random.default_rng(1)
    found = np.stack([rng.permutation(LABELS)[:12] for _ in range(N)])
    found[::3, -2:] = -1  # labels no text carries are never found
    made = without_positives(torch.from_numpy(found), np.arange(N), known, 8)
    same = (np.arange(LABELS)[:, None] == np.arange(LABELS)) | ((text[:, None] == text) & (text >= 0))
    for row in range(N):
        barred = same[(Y[row] + V[row]) > 0].any(0)  # a twin of a positive would be the hardest of all
        good = [label for label in found[row].tolist() if label >= 0 and not barred[label]][:8]
        assert made[row].tolist() == good + [-1] * (8 - len(good))
    assert without_positives(torch.from_numpy(found[:, :3]), np.arange(N), known, 8).shape == (N, 8)
    some = np.array([5, 2, 7])
    few = without_positives(torch.from_numpy(found[some]), some, known, 8)
    assert torch.equal(few, made[some])


def test_hard_negatives_do_not_depend_on_blocks(monkeypatch):
    known, *_ = data()
    found = torch.from_numpy(np.random.default_rng(2).integers(0, LABELS, (N, 12)))
    whole = without_positives(found, np.arange(N), known, 5)
    monkeypatch.setattr(pools, "BLOCK", 7)
    assert torch.equal(without_positives(found, np.arange(N), known, 5), whole)
    assert without_positives(found[:0], np.arange(0), known, 5).shape == (0, 5)


def test_a_batch_is_a_function_of_seed_and_step():
    known, *_ = data()
    lists = np.random.default_rng(0).integers(0, LABELS, (N, 6)).astype(np.int32)
    pools = Pools(known, PoolConfig(size=10, hard_negatives=2), 3)
    a, b, c = (pools.batch(np.arange(8), lists, step, 0, 1) for step in (5, 5, 6))
    assert np.array_equal(a.pool, b.pool) and not np.array_equal(a.pool, c.pool)
    first, second = (pools.batch(np.arange(9), lists, 5, rank, 2) for rank in (0, 1))
    assert np.array_equal(first.everyone, second.everyone) and np.array_equal(first.pool, second.pool)
    assert np.array_equal(np.concatenate([first.rows, second.rows]), [*range(9), 0])  # filled up with the first
    parts = list(a.split(3))
    assert [part.part for part in parts] == [0, 1, 2] and all(np.array_equal(p.rows, a.rows) for p in parts)


def test_batches_cut_from_labels_bring_a_document_of_each():
    known, Y, _, _ = data()
    pools = Pools(known, PoolConfig(queries="labels", size=20, hard_negatives=0), 0)
    labels = np.flatnonzero(Y.sum(0))[:9]
    made = pools.batch(labels, np.zeros((N, 0), np.int32), 0, 0, 1)
    assert set(labels) <= set(made.pool.tolist())
    assert all(Y[made.rows][:, label].any() for label in labels) and len(set(made.rows)) == len(made.rows)
    for size in (2, 3, 4, 20):  # no process changes what is learned from
        shares = [pools.batch(labels, np.zeros((N, 0), np.int32), 0, rank, size) for rank in range(size)]
        for share in shares:
            assert all(np.array_equal(getattr(share, name), getattr(made, name)) for name in SHARED)
            assert share.total == made.total and len(share.rows) == -(-made.total // size)
        assert np.array_equal(np.concatenate([share.rows for share in shares])[: made.total], made.everyone)
    indptr, documents = transposed(known)
    for label in range(LABELS):
        assert documents[indptr[label] : indptr[label + 1]].tolist() == np.flatnonzero(Y[:, label]).tolist()


def test_clusters_double_when_told():
    config = PoolConfig(cluster_size=2, curriculum=(3, 6))
    assert [2 ** config.splits(64, 16, epoch) for epoch in (0, 2, 3, 6, 9)] == [32, 32, 16, 8, 8]
    assert PoolConfig().splits(1000, 256, 0) == math.floor(math.log2(1000 / 256))
    due = [epoch for epoch in range(20) if PoolConfig(mine_from=5, mine_every=5).due(epoch)]
    assert due == [5, 10, 15] and not PoolConfig(clustered=False, hard_negatives=0).due(5)
