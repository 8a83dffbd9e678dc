import numpy as np
import pytest

from treetop.core.errors import ModelError
from treetop.core.types import Candidates, Join
from treetop.rank import dual
from treetop.rank.dual import Dual
from treetop.rank.head import Head
from treetop.rank.text_map import TextMap


def made(n=12):
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(n, 5)).astype(np.float32)
    return Dual(weight, rng.normal(size=n).astype(np.float32), widths={"dual": 3, "classifier": 2})


def test_scores_are_the_sum_of_the_heads():
    rank, view = made(), np.random.default_rng(1).normal(size=(4, 5)).astype(np.float32)
    ranking = rank.rank(view, Candidates.all(4, 12), Join(), 12)
    for row in range(4):
        one, other = rank.part("dual") @ view[row, :3], rank.part("classifier") @ view[row, 3:]
        expected = one + other + rank.bias
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
    with pytest.raises(ModelError, match="already permuted"):
        made.ordered(order)
    part = made.to_part()
    with pytest.raises(ModelError, match="contains an index twice"):
        Dual.from_part(type(part)(part.kind, part.config, {**part.arrays, "order": np.zeros(60, np.int32)}))


def test_a_new_label_takes_from_the_map_and_from_its_neighbours(monkeypatch):
    rng = np.random.default_rng(0)
    texts = rng.normal(size=(90, 8))
    texts = (texts / np.linalg.norm(texts, axis=1, keepdims=True)).astype(np.float32)
    weight = np.hstack([texts, rng.normal(size=(90, 2)).astype(np.float32)])
    bias = rng.normal(size=90).astype(np.float32)
    new = TextMap(*(rng.normal(size=shape).astype(np.float32) for shape in ((8,), (8, 3), (3,))))
    rank = Dual(weight, bias, widths={"dual": 8, "classifier": 2}, text=(1.5, -3.0), new=new)
    trained = np.arange(0, 90, 2)
    asked = texts[[4, 9]] + np.float32(0.01)
    expected = []
    for text in asked:
        cosine = texts[trained] @ text / np.linalg.norm(text)
        near = trained[np.argsort(-cosine)[:32]]
        share = np.exp(30 * np.sort(cosine)[::-1][:32])
        expected.append((share / share.sum()) @ np.hstack([weight[near, 8:], bias[near, None]]))
    told = np.column_stack(new.vectors(asked))
    rows, numbers = rank.of_new(asked, trained)
    assert np.array_equal(rows[:, :8], asked)
    np.testing.assert_allclose(np.column_stack([rows[:, 8:], numbers]), (told + expected) / 2, atol=1e-5)
    order = rng.permutation(90).astype(np.int32)
    monkeypatch.setattr(dual, "SHARE", 40)  # labels in blocks, new ones one by one
    monkeypatch.setattr(dual, "AT_ONCE", 1)
    again = Dual.from_part(rank.ordered(order).to_part()).of_new(asked, trained)
    np.testing.assert_allclose(again[0], rows, atol=1e-5)
    np.testing.assert_allclose(again[1], numbers, atol=1e-5)
    alone = rank.neighbours(texts[[4]], np.array([4, 6]), own=np.array([4]))  # a label is not its own neighbour
    np.testing.assert_allclose(alone[0], [*weight[6, 8:], bias[6]], atol=1e-6)


def test_a_model_without_a_map_scores_new_labels_by_the_line():
    rank = made()
    texts = rank.texts(np.array([3, 5]))
    for ours, theirs in zip(rank.of_new(texts, np.arange(12)), rank.of_text(texts), strict=True):
        assert np.array_equal(ours, theirs)
    part = rank.to_part()
    wrong = TextMap(np.zeros(3, np.float32), np.zeros((3, 2), np.float32), np.zeros(2, np.float32)).to_part()
    with pytest.raises(ModelError, match="array 'slope'"):
        Dual.from_part(type(part)(part.kind, part.config, part.arrays, {"new": wrong}))
