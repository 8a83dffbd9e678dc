import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch")
from treetop.network.targets import BatchTargets, TargetRows, Targets, joined

CPU = torch.device("cpu")


def test_targets_are_the_rows_of_the_matrix():
    dense = np.array([[0, 0.5, 0, 1], [0, 0, 0, 0], [1, 0, 0, 0.25]], np.float32)
    Y = sparse.csr_matrix(dense)
    store = TargetRows(Y, CPU)
    made = store.gather(np.array([2, 1, 0]))
    assert made.dense(4).tolist() == dense[[2, 1, 0]].tolist()
    above = made.mapped(torch.tensor([0, 0, 1, 1]))
    assert above.dense(2).tolist() == [[1, 0.25], [0, 0], [0.5, 1]]
    assert Targets(made.row[:0], made.column[:0], made.value[:0], 2).dense(3).sum() == 0


def test_void_targets_change_nothing():
    Y = sparse.random(20, 6, 0.3, format="csr", random_state=0, dtype=np.float32)
    store = TargetRows(Y, CPU)
    rows = np.array([3, 19, 0])
    message = store.load(rows, static=True)
    made, plain = store.targets(message), store.gather(rows)
    assert message.facts == (3, 4096) and len(made.row) == 4096 and int((made.column >= 0).sum()) == len(plain.row)
    assert torch.equal(made.dense(6), plain.dense(6))
    parent = torch.tensor([0, 0, 1, 1, 2, 2])
    assert torch.equal(made.mapped(parent).dense(3), plain.mapped(parent).dense(3))


def test_ignored_pairs_weigh_nothing_and_void_the_positives_among_them():
    Y = np.array([[0, 0.5, 0, 1], [1, 0, 0, 0.25]], np.float32)
    weights = np.array([[0, 2, 0, 3], [4, 0, 0, 5]], np.float32)
    ignored = np.array([[1, 0, 0, 1], [0, 0, 0, 0]], np.float32)
    positives, relevance, barred = (
        TargetRows(sparse.csr_matrix(x), CPU).gather(np.array([1, 0])) for x in (Y, weights, ignored)
    )
    for strengths in (None, relevance):
        made = BatchTargets(positives, strengths, barred).full()
        found = {}
        columns = (part.tolist() for part in (made.row, made.column, made.target, made.strength))
        for row, column, target, strength in zip(*columns, strict=True):
            if column >= 0:
                assert (row, column) not in found
                found[row, column] = target, strength
        one = strengths is None
        assert found == {
            (0, 0): (1.0, 1.0 if one else 4.0), (0, 3): (0.25, 1.0 if one else 5.0),
            (1, 1): (0.5, 1.0 if one else 2.0), (1, 0): (0.0, 0.0), (1, 3): (0.0, 0.0),
        }  # fmt: skip


def test_places_of_two_are_joined_once():
    a, b = (sparse.csr_matrix(np.array(x, np.float32)) for x in ([[1, 0, 1], [0, 0, 0]], [[1, 1, 0], [0, 0, 1]]))
    made = joined(*(TargetRows(x, CPU).gather(np.arange(2)) for x in (a, b)))
    assert len(made.row) == 4 and made.dense(3).tolist() == [[1, 1, 1], [0, 0, 1]]
