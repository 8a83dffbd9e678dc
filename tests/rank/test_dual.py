import numpy as np
import pytest

from treetop.core.errors import ModelError
from treetop.core.types import Candidates, Join
from treetop.rank.dual import Dual
from treetop.rank.head import Head


def made(n=12):
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(n, 5)).astype(np.float32)
    return Dual(weight, rng.normal(size=n).astype(np.float32), widths={"dual": 3, "classifier": 2})


def test_scores_are_the_sum_of_the_heads():
    rank, view = made(), np.random.default_rng(1).normal(size=(4, 5)).astype(np.float32)
    ranking = rank.rank(view, Candidates.all(4, 12), Join(), 12)
    for row in range(4):
        dual, own = rank.part("dual") @ view[row, :3], rank.part("classifier") @ view[row, 3:]
        expected = dual + own + rank.bias
        ids = ranking.ids[ranking.indptr[row] : ranking.indptr[row + 1]]
        assert ids.tolist() == np.argsort(-expected).tolist()
        np.testing.assert_allclose(
            ranking.score[ranking.indptr[row] : ranking.indptr[row + 1]], expected[ids], rtol=1e-4
        )


def test_saved_and_damaged():
    rank = made()
    again = Dual.from_part(rank.to_part())
    assert list(again.widths.items()) == list(rank.widths.items()) and np.array_equal(again.weight, rank.weight)
    part = rank.to_part()
    for widths in ([["dual", 4], ["classifier", 2]], [], [["dual", "3"], ["classifier", 2]], ["dual"]):
        with pytest.raises(ModelError):
            Dual.from_part(type(part)(part.kind, {**part.config, "widths": widths}, part.arrays))
    with pytest.raises(ModelError, match="no head 'other'"):
        rank.part("other")


def test_rows_in_the_order_of_lists_give_the_same():
    rng = np.random.default_rng(3)
    weight = np.round(rng.normal(size=(60, 5)), 1).astype(np.float32)  # with ties
    weight[7] = weight[40]
    plain = Dual(weight, np.zeros(60, np.float32), widths={"dual": 3, "classifier": 2})
    order = rng.permutation(60).astype(np.int32)
    made = plain.ordered(order)
    view = np.round(rng.normal(size=(3, 5)), 1).astype(np.float32)
    ids = [order[10:30], np.concatenate([order[40:50], order[5:9]]), np.array([7, 40, 3], np.int32)]
    candidates = Candidates(3, 60, np.cumsum([0, *map(len, ids)]), np.concatenate(ids).astype(np.int32))
    for join in (Join(), Join("sigmoid")):
        for keep in (2, 5, 99):
            expected = Head(weight, plain.bias).rank(view, candidates, join, keep)
            for rank in (plain, made, Dual.from_part(made.to_part())):
                found = rank.rank(view, candidates, join, keep)
                assert np.array_equal(found.indptr, expected.indptr)
                np.testing.assert_allclose(found.score, expected.score, rtol=1e-5, atol=1e-6)
                assert np.mean(found.ids == expected.ids) > 0.9  # equal scores of different sums may change places
                one = rank.rank(view[1:2], Candidates(1, 60, np.array([0, 14]), ids[1]), join, keep)
                assert one.ids.tolist() == found.ids[found.indptr[1] : found.indptr[2]].tolist()
    everything = Candidates.all(3, 60)
    a, b = (rank.rank(view, everything, Join(), 60) for rank in (plain, made))
    np.testing.assert_allclose(a.score, b.score, rtol=1e-5, atol=1e-6)
    assert sorted(b.ids[:60].tolist()) == list(range(60))
    with pytest.raises(ModelError, match="order of their own"):
        made.ordered(order)
    part = made.to_part()
    with pytest.raises(ModelError, match="stand twice"):
        Dual.from_part(type(part)(part.kind, part.config, {**part.arrays, "order": np.zeros(60, np.int32)}))


def test_a_label_known_by_its_text_takes_from_its_neighbours():
    rng = np.random.default_rng(0)
    texts = rng.normal(size=(30, 8))
    texts = (texts / np.linalg.norm(texts, axis=1, keepdims=True)).astype(np.float32)
    weight = np.hstack([texts, rng.normal(size=(30, 2)).astype(np.float32)])
    bias = rng.normal(size=30).astype(np.float32)
    rank = Dual(weight, bias, widths={"dual": 8, "classifier": 2}, text=(1.5, -3.0))
    everything, nothing = np.arange(30), np.zeros(0, np.int64)
    rows, numbers = rank.of_neighbours(texts[[4, 9]], [everything, nothing], 0.5)
    np.testing.assert_allclose(rows[0], weight[4], atol=0.01)  # its text is that of label 4
    assert numbers[0] == pytest.approx(bias[4], abs=0.01)
    plain, offset = rank.of_text(texts[[9]])
    assert np.array_equal(rows[1], plain[0]) and numbers[1] == offset[0]
    far, numbers = rank.of_neighbours(texts[[4]], [everything], 9.0)  # so far from all that no neighbour counts
    np.testing.assert_allclose(far, rank.of_text(texts[[4]])[0], atol=1e-6)
    order = rng.permutation(30).astype(np.int32)
    again = rank.ordered(order).of_neighbours(texts[[4, 9]], [everything, nothing], 0.5)
    np.testing.assert_allclose(again[0], rows, atol=1e-6)
