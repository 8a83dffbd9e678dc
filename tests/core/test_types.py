from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import toy
from treetop.core.dataset import Dataset, LabelSet
from treetop.core.errors import ConfigError, InputError, LabelError
from treetop.core.texts import Texts
from treetop.core.types import Candidates, Join, LabelTree, Ranking


def test_labels_are_found_by_id_or_unambiguous_name():
    labels = LabelSet.of(["a", "b", "c"], ["cat", "dog", "dog"])
    assert labels.find("cat") == 0 and labels.find("b") == 1
    with pytest.raises(LabelError, match="label 'dog': 2 labels have this name. Use an id: b, c."):
        labels.find("dog")
    with pytest.raises(LabelError, match=r"label 'cot': unknown id or name. Did you mean 'cat'\?"):
        labels.find("cot")
    with pytest.raises(LabelError, match="id 'a' appears twice"):
        LabelSet.of(["a", "b", "a"])
    assert list(LabelSet.of(["x", "y"], texts=["", "why"]).names) == ["x", "why"]


def test_parts_of_a_dataset_that_do_not_fit_are_refused():
    labels, texts = LabelSet.of(["a", "b"]), Texts.of(["x", "y"])
    Y = sparse.csr_matrix(np.eye(2, dtype=np.float32))
    for wrong, message in (
        ({"Y": Y[:1]}, "2 texts and 2 labels, but targets of 1 x 2"),
        ({"Y": Y * 2}, "targets must be numbers from 0 to 1"),
        ({"Y": Y * np.nan}, "targets must be numbers from 0 to 1"),
        ({"roles": np.zeros(3, np.uint8)}, "3 roles for 2 rows"),
        ({"ids": Texts.of(["1"])}, "1 ids for 2 rows"),
        ({"features": {"given": sparse.csr_matrix((3, 1))}}, "features 'given' have 3 rows for 2 texts"),
        ({"relevance": sparse.csr_matrix(np.ones((2, 2), np.float32))}, "exactly the sparsity pattern of the targets"),
        ({"filter_pairs": np.array([[0, 2]])}, "a filter pair lies outside the 2 rows and 2 labels"),
    ):
        with pytest.raises(InputError, match=message):
            Dataset(**{"texts": texts, "Y": Y, "labels": labels, **wrong})


def test_take_and_align_keep_rows_together():
    data = toy.dataset()
    data = Dataset(data.texts, data.Y, data.labels, filter_pairs=np.array([[3, 5], [7, 1]]), relevance=data.Y * 2)
    part = data.take([7, 3])
    assert part.filter_pairs.tolist() == [[0, 1], [1, 5]] and part.texts[0] == data.texts[7]
    other = LabelSet.of(["L05", "L01", "new"])
    moved = part.align(other)
    assert list(moved.labels.ids)[:3] == ["L05", "L01", "new"]
    for row in range(2):
        before = {part.labels.ids[c] for c in part.Y[row].indices}
        assert {moved.labels.ids[c] for c in moved.Y[row].indices} == before
    assert [(r, moved.labels.ids[c]) for r, c in moved.filter_pairs] == [(0, "L01"), (1, "L05")]
    assert data.take([3, 7, 3]).filter_pairs.tolist() == [[0, 5], [1, 1], [2, 5]]


def test_a_fingerprint_follows_everything_that_is_learned_from():
    data = toy.dataset()
    retired = replace(data.labels, status=np.arange(data.n_labels, dtype=np.uint8) % 2)
    others = [
        replace(data, propensity=(0.5, 0.4)), replace(data, labels=retired), replace(data, relevance=data.Y),
        replace(data, features={"a": data.Y}), replace(data, features={"b": data.Y}), data.take(np.arange(5)),
        replace(data, filter_pairs=np.array([[0, 1]])), replace(data, sample=np.full(len(data), 0.5, np.float32)),
    ]  # fmt: skip
    assert len({data.fingerprint, *(other.fingerprint for other in others)}) == 1 + len(others)
    assert toy.dataset().fingerprint == data.fingerprint


def test_tree_checks_and_children():
    tree = LabelTree((np.array([0, 0], np.int32), np.array([1, 0, 1], np.int32)))
    indptr, nodes = tree.children(1)
    assert indptr.tolist() == [0, 1, 3] and nodes.tolist() == [1, 0, 2] and tree.sizes == [2, 3]
    with pytest.raises(InputError, match="level 1 names a parent outside the 2 nodes above"):
        LabelTree((np.array([0, 0], np.int32), np.array([2], np.int32)))


rows = st.lists(st.lists(st.tuples(st.integers(0, 9), st.sampled_from([0.0, 0.5, 1.0])), max_size=8), max_size=6)


def make(lists):
    lists = [list(dict(row).items()) for row in lists]
    ends = np.concatenate([[0], np.cumsum([len(row) for row in lists])]).astype(np.int64)
    ids = np.array([i for row in lists for i, _ in row], np.int32)
    score = np.array([s for row in lists for _, s in row], np.float32)
    return lists, Ranking.sorted(ends, ids, score)


@given(rows, st.integers(1, 5), st.sets(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=5))
def test_ranking_against_plain_lists(lists, k, pairs):
    lists, ranking = make(lists)
    slow = [sorted(row, key=lambda cell: (-cell[1], cell[0])) for row in lists]
    pairs = {(r, c) for r, c in pairs if r < len(lists)}
    owner = np.repeat(np.arange(len(ranking)), np.diff(ranking.indptr))
    less = ranking.where(np.array([pair not in pairs for pair in zip(owner, ranking.ids, strict=True)], bool)).top(k)
    for r, row in enumerate(slow):
        wanted = [cell for cell in row if (r, cell[0]) not in pairs][:k]
        a, b = less.indptr[r], less.indptr[r + 1]
        assert list(zip(less.ids[a:b].tolist(), less.score[a:b].tolist(), strict=True)) == wanted
        padded = ranking.padded(k)[r].tolist()
        assert padded == [cell[0] for cell in row][:k] + [-1] * (k - min(k, len(row)))
    both = Ranking.concat([ranking, ranking])
    assert len(both) == 2 * len(ranking) and np.array_equal(both.ids[len(ranking.ids) :], ranking.ids)
    assert ranking.to_csr(10).nnz == len(ranking.ids)


def test_a_join_transforms_then_combines():
    margin = np.array([-2.0, 0.0, 3.0], np.float32)
    parent = Candidates(1, 3, parent_own=np.full(3, 0.5, np.float32), parent_score=np.full(3, 0.25, np.float32))
    hinge = Join("hinge3", "path")
    assert np.allclose(hinge.own(margin), np.exp(-(np.maximum(0, 1 - margin) ** 3)))
    assert np.allclose(hinge.score(hinge.own(margin), parent), hinge.own(margin) * 0.25)
    log = Join("log_sigmoid", "parent")
    assert np.allclose(log.score(log.own(margin), parent), np.log(1 / (1 + np.exp(-margin))) + 0.5)
    assert Join().score(margin, parent) is margin
    with pytest.raises(ConfigError, match=r"unknown value 'hing3'.*Did you mean 'hinge3'\?"):
        Join("hing3")
    with pytest.raises(ConfigError, match="raw margins .noop. allow only 'own'"):
        Join("noop", "path")
