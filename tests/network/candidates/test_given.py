"""Candidates named before training against a plain loop: where positives stand, and which nodes are kept."""

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch")
from toy_network import CPU, batch
from treetop.network.candidates.below import Children
from treetop.network.candidates.given import GivenLabels, GivenParents
from treetop.network.targets import BatchTargets, TargetRows
from treetop.tensors.devices import ALONE

ROWS, LABELS = 12, 20
RANDOM = np.random.default_rng(0)
COUNTS = {
    "random": RANDOM.integers(0, 6, ROWS),
    "empty": np.zeros(ROWS, int),
    "some empty": np.where(np.arange(ROWS) % 3, 4, 0),
    "more than fit": np.full(ROWS, 9),
}
WIDTH = 6


def case(counts, *, tied):
    """(targets in an already permuted, lists that begin with them, what a plain loop expects)."""
    rng = np.random.default_rng(1)
    own = [rng.permutation(LABELS)[:count] for count in counts]
    values = [np.full(count, 0.5) if tied else rng.uniform(0.1, 1.0, count) for count in counts]
    indptr = np.concatenate([[0], np.cumsum(counts)])
    data, columns = (np.concatenate([np.zeros(0), *parts]) for parts in (values, own))
    Y = sparse.csr_matrix((data.astype(np.float32), columns.astype(np.int32), indptr), (ROWS, LABELS))
    lists, expected = np.full((ROWS, WIDTH), -1, np.int32), np.zeros((ROWS, WIDTH), np.float32)
    for i in range(ROWS):
        others = [label for label in rng.permutation(LABELS)[:3].tolist() if label not in own[i]]
        for place, label in enumerate([*own[i].tolist(), *others][:WIDTH]):
            lists[i, place] = label
            if place < len(own[i]):
                expected[i, place] = values[i][place]
    return Y, lists, expected


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
def test_positives_stand_in_the_order_of_the_targets(counts, static, tied):
    Y, lists, expected = case(counts, tied=tied)
    given, targets = GivenLabels(lists, CPU), TargetRows(Y, CPU)
    for rows in (np.arange(ROWS), np.array([7, 0, 11, 7]), np.array([3])):
        known = BatchTargets(targets.targets(targets.load(rows, static)))
        chosen = given.choose(known, given.load(batch(rows), static), None)
        pairs = chosen.pairs(torch.zeros(len(rows), WIDTH), known)
        np.testing.assert_array_equal(chosen.ids, lists[rows])
        np.testing.assert_array_equal(pairs.target, expected[rows])
        np.testing.assert_array_equal(pairs.ignored, lists[rows] < 0)


def test_lists_that_should_leave_out_ignored_pairs_refuse_to_look_for_them():
    Y, lists, _ = case(COUNTS["random"], tied=False)
    given, targets, rows = GivenLabels(lists, CPU), TargetRows(Y, CPU).gather(np.arange(3)), np.arange(3)
    with pytest.raises(ValueError, match="lists leave out ignored pairs"):
        given.choose(BatchTargets(targets, ignored=targets), given.load(batch(rows), False), None)


def test_true_nodes_replace_the_last_of_the_given_ones():
    parent = np.arange(LABELS) % 5
    given = np.array([[0, 1, 2], [4, 3, 2], [1, 0, 4]])
    true = sparse.csr_matrix((np.ones(4, np.float32), ([0, 1, 1, 1], [8, 0, 1, 5])), (3, LABELS))  # 3; 0, 1, 0
    made = GivenParents(Children.of(parent, 5, CPU), given, 5, forced=True, world=ALONE)
    known = BatchTargets(TargetRows(true, CPU).gather(np.arange(3)))
    ids = made.choose(known, made.load(batch(range(3)), False), None).ids
    for row, nodes in zip(ids.tolist(), ({3, 0, 1}, {0, 1, 4}, {1, 0, 4}), strict=True):
        assert set(row) == {label for label in range(LABELS) if parent[label] in nodes}
    free = GivenParents(Children.of(parent, 5, CPU), given, 5, forced=False, world=ALONE)
    ids = free.choose(known, free.load(batch(range(3)), False), None).ids
    assert [sorted({label % 5 for label in row}) for row in ids.tolist()] == [[0, 1, 2], [2, 3, 4], [0, 1, 4]]


def test_rows_with_fewer_nodes_than_places_stay_padded_when_true_ones_are_forced():
    parent = np.array([0, 1, 2, 3], np.int32)
    Y = sparse.csr_matrix(np.array([[0, 0, 0, 1], [1, 0, 0, 0], [0, 0, 0, 0]], np.float32))
    nodes = np.array([[1, -1, -1], [0, -1, -1], [2, 1, -1]])
    given = GivenParents(Children.of(parent, 4, CPU), nodes, 4, forced=True, world=ALONE)
    chosen = given.choose(
        BatchTargets(TargetRows(Y, CPU).gather(np.arange(3))), given.load(batch(range(3)), False), None
    )
    assert [sorted(row) for row in chosen.ids.tolist()] == [[-1, 1, 3], [-1, -1, 0], [-1, 1, 2]]
