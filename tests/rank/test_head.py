import dataclasses

import numpy as np
import pytest

from treetop.core.errors import ModelError
from treetop.core.types import Candidates, Join
from treetop.kernels.runtime import threads
from treetop.rank import head as head_
from treetop.rank.head import Head


def setup(squeeze=False, n=50, seed=0):
    rng = np.random.default_rng(seed)
    width = 4 if squeeze else 6
    bias = rng.normal(size=n).astype(np.float32)
    bias[[3, 7]] = -np.inf
    more = {}
    if squeeze:
        more = {"squeeze": rng.normal(size=(4, 6)), "squeeze_bias": rng.normal(size=4)}
        more = {key: value.astype(np.float32) for key, value in more.items()}
    head = Head(rng.normal(size=(n, width)).astype(np.float32), bias, **more)
    return head, rng.normal(size=(9, 6)).astype(np.float32)


def slow(head, view, rows, join, keep):
    """Every pair by itself: rows = per document a list of (id, parent own, parent score)."""
    made = []
    for x, row in zip(view, rows, strict=True):
        h = x if head.squeeze is None else head.squeeze @ x + head.squeeze_bias
        scored = []
        for label, parent_own, parent_score in row:
            margin = np.float32(head.weight[label] @ h + head.bias[label])
            if margin == -np.inf:
                continue
            own = float(join.own(np.array([margin], np.float32))[0])
            parent = {"own": None, "parent": parent_own, "path": parent_score}[join.combine]
            score = own if parent is None else own + parent if join.adds else own * parent
            scored.append((-score, label))
        made.append([label for _, label in sorted(scored)[:keep]])
    return made


def ids_of(ranking):
    return [ranking.ids[a:b].tolist() for a, b in zip(ranking.indptr[:-1], ranking.indptr[1:], strict=True)]


@pytest.mark.parametrize("squeeze", [False, True])
@pytest.mark.parametrize("transform", ["noop", "sigmoid", "log_sigmoid", "hinge3"])
@pytest.mark.parametrize("keep", [1, 5, 100])
@pytest.mark.parametrize("documents", [4, 64])  # blocks of documents, or one whose labels are shared out
@pytest.mark.parametrize("few", [1, 128])  # sorted, or kept while they are met
def test_all_labels_equal_sorting_everything(squeeze, transform, keep, documents, few, monkeypatch):
    monkeypatch.setattr(Head, "block", 13)
    monkeypatch.setattr(Head, "share", 7)
    monkeypatch.setattr(head_, "DOCUMENTS", documents)
    monkeypatch.setattr(head_, "FEW", few)
    head, view = setup(squeeze)
    join = Join(transform)
    ranking = head.rank(view, Candidates.all(9, 50), join, keep)
    assert ids_of(ranking) == slow(head, view, [[(i, None, None) for i in range(50)]] * 9, join, keep)
    assert ranking.score.dtype == np.float32 and np.isfinite(ranking.score).all()


@pytest.mark.parametrize("combine", ["own", "parent", "path"])
@pytest.mark.parametrize("transform", ["sigmoid", "log_sigmoid"])
def test_gathered_candidates_equal_pairs(combine, transform, monkeypatch):
    monkeypatch.setattr(head_, "DOCUMENTS", 4)
    head, view = setup(True)
    rng = np.random.default_rng(1)
    rows = []
    for i in range(9):
        chosen = rng.choice(50, 0 if i == 4 else rng.integers(1, 20), replace=False)
        rows.append(
            [(int(c), float(a), float(b)) for c, a, b in zip(chosen, *rng.random((2, len(chosen))), strict=True)]
        )
    flat = [item for row in rows for item in row]
    candidates = Candidates(
        9, 50, np.concatenate([[0], np.cumsum([len(row) for row in rows])]),
        np.array([item[0] for item in flat], np.int32),
        np.array([item[1] for item in flat], np.float32), np.array([item[2] for item in flat], np.float32),
    )  # fmt: skip
    join = Join(transform, combine)
    assert ids_of(head.rank(view, candidates, join, 6)) == slow(head, view, rows, join, 6)


def test_saturated_scores_are_settled_by_id():
    head = Head(np.array([[20.0], [40.0], [30.0], [1.0]], np.float32), np.zeros(4, np.float32))
    view = np.ones((1, 1), np.float32)
    for keep in (1, 2, 3):
        assert head.rank(view, Candidates.all(1, 4), Join("sigmoid"), keep).ids.tolist() == [0, 1, 2][:keep]
    low = Head(
        np.full((4, 1), -2000.0, np.float32) - np.arange(4, dtype=np.float32)[::-1, None], np.zeros(4, np.float32)
    )
    assert low.rank(view, Candidates.all(1, 4), Join("sigmoid"), 2).ids.tolist() == [0, 1]


def test_bits_do_not_depend_on_threads():
    head, _ = setup(False, n=500)
    view = np.random.default_rng(3).normal(size=(700, 6)).astype(np.float32)
    made = []
    for count in (1, 3):
        with threads.limited(count):
            made.append(head.rank(view, Candidates.all(700, 500), Join("sigmoid"), 7))
    assert np.array_equal(made[0].ids, made[1].ids) and np.array_equal(made[0].score, made[1].score)


@pytest.mark.parametrize("squeeze", [False, True])
def test_part_and_refusals(squeeze):
    head, view = setup(squeeze)
    again = Head.from_part(head.to_part())
    a, b = (h.rank(view, Candidates.all(9, 50), Join(), 5) for h in (head, again))
    assert np.array_equal(a.score, b.score)
    with pytest.raises(ModelError, match=r"got a view of 5 columns, was trained on 6"):
        head.rank(view[:, :5], Candidates.all(9, 50), Join(), 5)
    part = head.to_part()
    with pytest.raises(ModelError):
        Head.from_part(dataclasses.replace(part, arrays={**part.arrays, "bias": part.arrays["bias"][:-1]}))


@pytest.mark.parametrize("falling", [False, True])
@pytest.mark.parametrize("join", [Join(), Join("sigmoid")])
def test_blocks_of_rising_or_falling_margins_give_the_same(falling, join, monkeypatch):
    """Rising ones lie above the bar of the blocks before in great numbers."""
    monkeypatch.setattr(Head, "block", 50)
    monkeypatch.setattr(head_, "DOCUMENTS", 4)
    margins = np.round(np.linspace(-3, 3, 2000), 2).astype(np.float32)
    head = Head((margins[::-1] if falling else margins)[:, None].copy(), np.zeros(2000, np.float32))
    view = np.array([[1.0], [-1.0], [0.5], [0.0], [2.0]], np.float32)
    for keep in (1, 7, 300):
        found = head.rank(view, Candidates.all(5, 2000), join, keep)
        assert ids_of(found) == slow(head, view, [[(i, None, None) for i in range(2000)]] * 5, join, keep)


def test_the_fast_form_finds_the_same_labels_for_a_text_by_itself(monkeypatch):
    monkeypatch.setattr("treetop.rank.head.CODED", 100)
    rng = np.random.default_rng(0)
    weight, bias = rng.normal(size=(3000, 24)).astype(np.float32), rng.normal(size=3000).astype(np.float32)
    bias[:50] = -np.inf
    rank, h = Head(weight, bias), rng.normal(size=(40, 24)).astype(np.float32)
    quick = rank.fast()
    assert rank.codes is None and quick.codes is not None and Head(weight[:50], bias[:50]).fast().codes is None
    monkeypatch.setattr(Head, "share", 700)
    for join in (Join(), Join("sigmoid")):
        for i in range(len(h)):
            everything = Candidates.all(1, 3000)
            found, expected = (
                quick.rank(h[i : i + 1], everything, join, 10),
                rank.rank(h[i : i + 1], everything, join, 10),
            )
            assert np.array_equal(found.ids, expected.ids)
            np.testing.assert_allclose(found.score, expected.score, rtol=1e-5)
    whole = Candidates.all(40, 3000)
    assert np.array_equal(quick.rank(h, whole, Join(), 10).ids, rank.rank(h, whole, Join(), 10).ids)  # not by codes
    assert len(quick.rank(h[:1], Candidates.all(1, 3000), Join(), 2990).ids) == 2950
