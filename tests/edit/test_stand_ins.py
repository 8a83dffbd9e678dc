"""Stand-ins for training texts that are not kept: words of siblings among words that all texts have."""

import dataclasses

import numpy as np
import pytest
from scipy import sparse

import toy
import treetop
from toy_edits import HIDDEN, TINY, without
from treetop.edit import stand_ins as module
from treetop.edit.stand_ins import language_of, stand_ins


@pytest.fixture(scope="module")
def model():
    return treetop.fit("xr_linear", without(toy.dataset()), settings=TINY, calibrate=False, keep_texts=True)


@pytest.fixture
def made(model):
    X = model.views(toy.dataset().texts)["tfidf"]
    rank = model.members[0][-1].rank
    return X, rank, stand_ins(rank, model.counts, {0: 0, 2: 0}, language_of(X), 1)


def test_a_node_gets_as_many_as_its_labels_have_texts(model, made):
    X, rank, (rows, nodes, _) = made
    children = np.split(rank.weights.ids, rank.weights.slot_ptr[1:-1])
    texts = [int(model.counts[children[node]].sum()) for node in (0, 2)]
    assert [int((nodes == node).sum()) for node in (0, 2)] == texts and rows.shape == (sum(texts), X.shape[1])
    fewer, nodes, labels = stand_ins(rank, model.counts, {0: texts[0] - 3, 2: texts[1] + 5}, language_of(X), 1)
    assert nodes.tolist() == [0, 0, 0] and set(labels.tolist()) <= set(children[0].tolist()) and fewer.shape[0] == 3


def test_rows_look_like_real_ones(made):
    X, _, (rows, _, _) = made
    assert rows.data.min() > 0 and np.allclose(np.sqrt(rows.multiply(rows).sum(1)), 1, atol=1e-5)
    assert np.diff(rows.indptr).max() <= np.diff(X.indptr).max()
    assert np.diff(rows.indptr).mean() > 0.6 * np.diff(X.indptr).mean()


def test_some_words_are_those_of_the_labels_of_the_node(made, monkeypatch):
    X, rank, (rows, nodes, _) = made
    kept = {node: module._positive(rank, node, 5).tocoo() for node in (0, 2)}
    for node, functions in kept.items():
        own = np.zeros(X.shape[1], bool)
        own[functions.col] = True
        here = rows[nodes == node]
        assert own[here.indices].mean() > own[X.indices].mean() and own[here.indices].mean() >= module.SHARE * 0.9


def test_the_same_seed_gives_the_same_rows_and_there_are_no_more_than_allowed(model, made, monkeypatch):
    X, rank, (rows, _, _) = made
    again, *_ = stand_ins(rank, model.counts, {0: 0, 2: 0}, language_of(X), 1)
    assert (rows != again).nnz == 0
    monkeypatch.setattr(module, "MOST", 4)
    assert stand_ins(rank, model.counts, {0: 0}, language_of(X), 1)[0].shape[0] == 4
    empty = sparse.csr_matrix((0, X.shape[1]), dtype=np.float32)
    assert stand_ins(rank, model.counts, {0: 0}, language_of(empty), 1)[0].shape[0] == 0


@pytest.mark.parametrize("storage", ["int8", "float16"])
def test_weights_in_few_bytes_are_read_as_they_are(model, storage):
    small = treetop.fit(
        "xr_linear", without(toy.dataset()), settings={**TINY, "linear": {"storage": storage}}, calibrate=False
    )
    big, few = (module._positive(m.members[0][-1].rank, 1, 5).toarray() for m in (model, small))
    assert np.allclose(big, few, atol=0.02)


def test_new_labels_with_stand_ins_are_shown_about_as_often_as_with_real_texts(model):
    rows = toy.dataset()
    few = rows.take(np.flatnonzero(rows.Y[:, list(HIDDEN)].sum(1)))
    plain = dataclasses.replace(model, documents=None)
    shown = []
    for each, most in ((model, 10_000), (plain, 10_000), (plain, 0)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "MOST", most)
            top = each.add_labels(examples=few).rank(toy.dataset(seed=3).texts, 5)
        shown.append(int((top.ids >= 37).sum()))
    kept, drawn, none = shown
    assert drawn < none and abs(drawn - kept) < abs(none - kept)
