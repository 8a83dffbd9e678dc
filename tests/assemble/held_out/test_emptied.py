"""Labels whose only documents are held out teach nothing, unless other labels have no document either."""

import numpy as np
from scipy import sparse

from treetop.assemble.held_out.emptied import emptied, leave_out
from treetop.core.dataset import Dataset, LabelSet
from treetop.core.texts import Texts
from treetop.core.types import Ranking


def held_out(rows, n_labels):
    Y = sparse.lil_matrix((len(rows), n_labels), dtype=np.float32)
    for row, columns in enumerate(rows):
        Y[row, columns] = 1
    return Dataset(
        Texts.of(["x"] * len(rows)), Y.tocsr(), LabelSet.of([str(i) for i in range(n_labels)]), relevance=Y.tocsr()
    )


def test_labels_whose_only_documents_are_held_out_are_left_out_of_a_closed_label_set():
    data, counts = held_out([[0, 2], [1], [2]], 3), np.array([4, 1, 0])
    assert emptied(data, counts).tolist() == [False, False, True]


def test_they_stay_where_as_many_labels_are_known_by_their_texts_alone():
    data, counts = held_out([[0, 2], [1], [2]], 4), np.array([4, 1, 0, 0])
    assert not emptied(data, counts).any()


def test_labels_that_the_model_does_not_know_stay_misses():
    data, counts = held_out([[0, 2, 3], [1], [2]], 4), np.array([4, 1, 0])
    assert emptied(data, counts).tolist() == [False, False, True, False]


def test_nothing_is_left_out_where_every_label_has_a_document():
    data = held_out([[0], [1]], 2)
    ranking = Ranking.sorted(np.array([0, 1, 2]), np.array([0, 1], np.int32), np.array([0.5, 0.5], np.float32))
    none = emptied(data, np.array([1, 1]))
    assert leave_out(none, data, [ranking]) == (data, [ranking])


def test_targets_and_rankings_lose_them():
    data, counts = held_out([[0, 2], [1], [2]], 3), np.array([4, 1, 0])
    ranking = Ranking.sorted(
        np.array([0, 2, 3, 5]), np.array([0, 2, 1, 2, 0], np.int32), np.array([0.9, 0.8, 0.7, 0.6, 0.5], np.float32)
    )
    rows, [left] = leave_out(emptied(data, counts), data, [ranking])
    assert [rows.Y[i].indices.tolist() for i in range(len(rows))] == [[0], [1]]  # the third has no other label
    assert left.ids.tolist() == [0, 1] and left.indptr.tolist() == [0, 1, 2]
    assert data.Y.nnz == 4 and ranking.ids.tolist() == [0, 2, 1, 2, 0]


def test_documents_without_any_label_stay():
    data, counts = held_out([[], [2], [1]], 3), np.array([4, 1, 0])
    ranking = Ranking.sorted(np.array([0, 1, 2, 3]), np.array([0, 2, 1], np.int32), np.array([3, 2, 1], np.float32))
    rows, [left] = leave_out(emptied(data, counts), data, [ranking])
    assert [rows.Y[i].indices.tolist() for i in range(len(rows))] == [[], [1]]
    assert left.ids.tolist() == [0, 1] and left.score.tolist() == [3, 1]


def test_documents_of_a_ranking_are_taken_in_any_order():
    ranking = Ranking.sorted(np.array([0, 2, 2, 3]), np.array([5, 4, 7], np.int32), np.array([1, 2, 3], np.float32))
    taken = ranking.take(np.array([2, 1, 0, 0]))
    assert taken.indptr.tolist() == [0, 1, 1, 3, 5] and taken.ids.tolist() == [7, 4, 5, 4, 5]
    assert len(ranking.take(np.zeros(0, np.int64))) == 0
