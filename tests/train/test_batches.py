import numpy as np
import pytest

torch = pytest.importorskip("torch")
from treetop.train.batches import Batch, Loaded, Message, Plan, split_off


def test_an_epoch_visits_every_row_once_and_differs_from_the_next():
    plan = Plan(np.arange(23) + 100, 5, seed=1)
    first, second = plan.epoch(0), plan.epoch(1)
    assert plan.steps == 5 == len(first)
    assert sorted(np.concatenate(first)) == list(range(100, 123)) == sorted(np.concatenate(second))
    assert not np.array_equal(np.concatenate(first), np.concatenate(second))
    assert np.array_equal(np.concatenate(first), np.concatenate(plan.epoch(0)))


def test_walk_from_the_middle_continues_the_same_way():
    plan = Plan(np.arange(23), 5, seed=1)
    whole = [batch.rows.tolist() for batch in plan.walk(0, 12)]
    assert [batch.rows.tolist() for batch in plan.walk(7, 12)] == whole[7:]


def test_length_order_pads_little():
    lengths = np.random.default_rng(0).integers(1, 100, 1000)
    padding = {}
    for order in ("random", "length"):
        cut = Plan(np.arange(1000), 10, seed=0, order=order, lengths=lengths).epoch(0)
        assert sorted(np.concatenate(cut)) == list(range(1000))
        padding[order] = sum(lengths[rows].max() * len(rows) for rows in cut) / lengths.sum()
    assert padding["length"] < 1.05 < 1.5 < padding["random"]


def test_processes_share_a_batch():
    plans = [Plan(np.arange(11), 4, seed=0, rank=rank, size=2) for rank in (0, 1)]
    for a, b in zip(plans[0].walk(0, 6), plans[1].walk(0, 6), strict=True):
        assert np.array_equal(a.everyone, b.everyone)
        assert np.array_equal(np.concatenate([a.rows, b.rows]), a.everyone)
        assert len(a.rows) == len(b.rows)


def test_micro_batches_cover_the_batch_and_keep_its_total():
    batch = next(iter(Plan(np.arange(10), 10, seed=0).walk(0, 1)))
    parts = list(batch.split(3))
    assert np.array_equal(np.concatenate([part.rows for part in parts]), batch.rows)
    assert {part.total for part in parts} == {10}
    assert [len(part.rows) for part in batch.split(16)] == [1] * 10


def test_validation_rows_leave_training():
    kept, held = split_off(np.arange(50), 0.1, seed=0)
    assert len(held) == 5 and sorted([*kept, *held]) == list(range(50))
    assert len(split_off(np.arange(50), 0.0, seed=0)[1]) == 0


def loaded(*, rows=(1, 2), total=2, facts=(2, 4096), shift=0.0, recordable=True):
    """A batch of two parts."""
    batch = Batch(np.array(rows), np.array(rows), total, 0)
    targets = Message({"places": torch.arange(4.0) + shift, "values": torch.ones(2) + shift}, facts)
    return Loaded(batch, {"inputs": Message({"views": torch.zeros(2, 3) + shift}, 2), "targets": targets}, recordable)


def test_batches_of_one_key_differ_in_values_only():
    one = loaded()
    assert one.key == loaded(rows=(5, 0), shift=3.0).key is not None
    hash(one.key)
    for other in (loaded(facts=(2, 8192)), loaded(total=3), loaded(recordable=False)):
        assert other.key != one.key
    assert loaded(recordable=False).key is None
    fewer = Loaded(one.batch, {"inputs": one.parts["inputs"]}, True)
    assert fewer.key != one.key
    assert Loaded(one.batch).key is None


def test_a_clone_takes_later_batches_of_its_key():
    one, later = loaded(), loaded(shift=7.0)
    held = one.cloned()
    assert held.key == one.key and held.batch is one.batch
    for own, real in zip(held.tensors, one.tensors, strict=True):
        assert torch.equal(own, real) and own.data_ptr() != real.data_ptr()
    for static, fresh in zip(held.tensors, later.tensors, strict=True):  # what a replay does
        static.copy_(fresh)
    assert torch.equal(held.parts["targets"]["values"], later.parts["targets"]["values"])
    assert torch.equal(held.parts["inputs"]["views"], later.parts["inputs"]["views"])
    assert (one.parts["inputs"]["views"] == 0).all() and one.parts["targets"]["places"].tolist() == [0, 1, 2, 3]
