import numpy as np
import pytest
from scipy import sparse

from treetop.core.errors import ModelError
from treetop.core.types import LabelTree, Ranking
from treetop.shortlist.descend import Descend
from treetop.shortlist.everything import Everything

TREE = LabelTree((np.array([0, 0, 0], np.int32), np.array([2, 0, 2, 0, 1], np.int32)))
VIEW = sparse.csr_matrix((2, 7), dtype=np.float32)


def above(rows):
    ends = np.concatenate([[0], np.cumsum([len(r) for r in rows])]).astype(np.int64)
    ids = np.array([i for r in rows for i in r], np.int32)
    return Ranking(ends, ids, ids * 0.5, ids * 0.25)


def test_children_carry_their_parents_scores():
    found = Descend.of(TREE, 1).candidates(VIEW, above([[2, 0], [1]]))
    assert found.indptr.tolist() == [0, 4, 5] and found.ids.tolist() == [0, 2, 1, 3, 4]
    assert found.parent_score.tolist() == [1.0, 1.0, 0, 0, 0.5] and found.parent_own.tolist() == [0.5, 0.5, 0, 0, 0.25]
    empty = Descend.of(TREE, 1).candidates(VIEW, above([[], []]))
    assert empty.indptr.tolist() == [0, 0, 0] and len(empty.ids) == 0


def test_first_level_is_everything():
    assert Descend.of(TREE, 0).candidates(VIEW, None).ids is None
    assert Descend.of(TREE, 0).candidates(VIEW, None).n == Everything(3).candidates(VIEW, None).n == 3
    assert [Descend.of(TREE, 1).parents_of(label) for label in range(5)] == [[2], [0], [2], [0], [1]]


def test_mismatched_levels_are_refused():
    with pytest.raises(ModelError, match="3 parents but no ranking"):
        Descend.of(TREE, 1).candidates(VIEW, None)
    with pytest.raises(ModelError, match="the level above ranks more than 3 nodes"):
        Descend.of(TREE, 1).candidates(VIEW, above([[3], []]))


def test_children_survive_a_round_trip():
    again = Descend.from_part(Descend.of(TREE, 1).to_part())
    assert np.array_equal(again.children, Descend.of(TREE, 1).children)
