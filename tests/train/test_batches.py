import numpy as np
import pytest

torch = pytest.importorskip("torch")
from treetop.network.targets import TargetRows, Targets
from treetop.tensors.packed import TokenRows
from treetop.train.batches import Plan, split_off

CPU = torch.device("cpu")


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


def test_packed_sequences_are_the_sequences():
    rng = np.random.default_rng(0)
    texts = [rng.integers(0, 60000, n) for n in (4, 1, 3, 2, 3)]
    offsets = np.concatenate([[0], np.cumsum([len(t) for t in texts])])
    store = TokenRows(np.concatenate(texts).astype(np.uint16), offsets, CPU)
    rows = np.array([4, 0, 1, 3])
    packed = store.gather(rows)
    assert packed.shape == (4, 4, 10, 4, False)
    _holds(packed, [texts[row] for row in rows])


def _holds(packed, texts):
    for i, text in enumerate(texts):
        s = int(packed.back[i])
        a, b = int(packed.starts[s]), int(packed.starts[s + 1])
        assert packed.ids[a:b].tolist() == text.tolist()
        assert packed.positions[a:b].tolist() == list(range(b - a))
        assert (packed.sequence[a:b] == s).all()


@pytest.mark.parametrize("row", range(3))
def test_a_text_by_itself_is_packed_as_in_a_batch(row):
    texts = [np.array(numbers, np.uint16) for numbers in ([7, 60000, 9], [], [5])]
    store = TokenRows(np.concatenate(texts), np.array([0, 3, 3, 4]), CPU)
    alone, (message, shape) = store.gather(np.array([row])), store.describe(np.array([row]))
    _holds(alone, [texts[row]])
    as_ever = store.packed(torch.from_numpy(message), shape)
    assert alone.shape == shape
    for name in ("ids", "positions", "starts", "sequence", "back"):
        found, wanted = getattr(alone, name), getattr(as_ever, name)
        assert found.dtype == wanted.dtype and torch.equal(found, wanted), name


def test_targets_are_the_rows_of_the_matrix():
    dense = np.array([[0, 0.5, 0, 1], [0, 0, 0, 0], [1, 0, 0, 0.25]], np.float32)
    from scipy import sparse

    Y = sparse.csr_matrix(dense)
    store = TargetRows(Y.indptr, Y.indices, Y.data, CPU)
    made = store.gather(np.array([2, 1, 0]))
    assert made.dense(4).tolist() == dense[[2, 1, 0]].tolist()
    above = made.mapped(torch.tensor([0, 0, 1, 1]))
    assert above.dense(2).tolist() == [[1, 0.25], [0, 0], [0.5, 1]]
    assert Targets(made.row[:0], made.column[:0], made.value[:0], 2).dense(3).sum() == 0


@pytest.mark.parametrize("windows", [False, True])
def test_static_shapes_hold_the_same_sequences(windows):
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 40, 300)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    rows = np.arange(0, 301, 2) if windows else None
    store = TokenRows(rng.integers(0, 999, offsets[-1]).astype(np.uint16), offsets, CPU, rows)
    shapes = set()
    for _ in range(3):
        chosen = rng.integers(0, 150 if windows else 300, 50)
        plain = store.gather(chosen)
        message, shape = store.describe(chosen, static=True)
        shapes.add(shape)
        packed = store.packed(torch.from_numpy(message), shape)
        n, tokens = plain.shape.sequences, plain.shape.tokens
        assert shape.tokens % 2048 == 0 and shape.sequences > n
        for name, count in (("ids", tokens), ("positions", tokens), ("sequence", tokens), ("starts", n + 1)):
            assert torch.equal(getattr(packed, name)[:count], getattr(plain, name)), name
        assert torch.equal(packed.back[: len(plain.back)], plain.back)
        assert (packed.starts[1:] - packed.starts[:-1])[n:].max() <= 16
        assert int(packed.starts[-1]) == shape.tokens == len(packed.ids)
    assert len(shapes) <= 2


def test_void_targets_change_nothing():
    from scipy import sparse

    Y = sparse.random(20, 6, 0.3, format="csr", random_state=0, dtype=np.float32)
    store = TargetRows(Y.indptr, Y.indices, Y.data, CPU)
    rows = np.array([3, 19, 0])
    message, total = store.describe(rows, static=True)
    made = store.targets(torch.from_numpy(message), 3, total)
    plain = store.gather(rows)
    assert total == 4096 == len(made.row) and int((made.column >= 0).sum()) == len(plain.row)
    assert torch.equal(made.dense(6), plain.dense(6))
    parent = torch.tensor([0, 0, 1, 1, 2, 2])
    assert torch.equal(made.mapped(parent).dense(3), plain.mapped(parent).dense(3))
