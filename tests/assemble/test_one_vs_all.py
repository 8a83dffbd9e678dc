import dataclasses

import numpy as np
import pytest
from scipy import sparse

import toy
import treetop
from treetop.assemble.linear import one_vs_all
from treetop.assemble.linear.one_vs_all import OneVsAllConfig, train_labels
from treetop.core.types import Join
from treetop.core.work import Job
from treetop.kernels import reference
from treetop.kernels.runtime import threads
from treetop.kernels.tree.chunks import ABSENT
from treetop.shortlist.everything import Everything


@pytest.fixture(scope="module")
def data():
    dataset = toy.dataset(n=120)
    X = sparse.csr_matrix(
        np.array([[text.split().count(word) for word in toy.WORDS] for text in dataset.texts], np.float32)
    )
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(1)).ravel())
    X.data /= np.repeat(np.maximum(lengths, 1e-9), np.diff(X.indptr)).astype(np.float32)
    return X, dataset


def weights_of(rank):
    """Dense (n_features + 1, n_labels), the bias last, out of the packed chunks."""
    W = np.zeros((rank.n_features + 1, rank.n))
    eye = sparse.identity(rank.n_features, np.float32, "csr")
    for label in range(rank.n):
        for f in range(rank.n_features):
            found = rank.gradient(eye[f], label)
            W[found.columns, label] += found.weights
            W[-1, label] = found.bias
    return W


def same(a, b):
    left, right = a.to_part(), b.to_part()
    return left.config == right.config and all(
        np.array_equal(array, right.arrays[name]) for name, array in left.arrays.items()
    )


@pytest.mark.parametrize("bias", ["regularised", "plain"])
@pytest.mark.parametrize("weighting", ["none", "up", "down"])
def test_every_label_is_at_its_minimum(data, bias, weighting):
    X, dataset = data
    config = OneVsAllConfig(
        bias=bias, propensity_weighting=weighting, threshold=0.0, block_size=16, cost=2.0, eps=1e-3, gap=1e-6
    )
    W = weights_of(train_labels(X, dataset, config, Job()))
    full = np.hstack([X.toarray().astype(float), np.ones((len(dataset), 1))])
    scales = np.ones(full.shape[1])
    scales[-1] = bias == "regularised"
    for label in (0, 5, 20):
        y = np.where(dataset.Y[:, [label]].toarray().ravel() > 0, 1.0, -1.0)
        a, b = dataset.propensity
        c = (np.log(len(y)) - 1) * (b + 1) ** a
        more = 1 + 2 * c * ((y > 0).sum() + b) ** -a  # 2 / p - 1
        costs = 2.0 * np.where(y > 0, more if weighting == "up" else 1.0, 1 / more if weighting == "down" else 1.0)

        def value(w, y=y, costs=costs):
            return 0.5 * scales @ w**2 + costs @ reference.linear_loss("squared_hinge", y * (full @ w))

        least = value(reference.newton_minimum(full, y, costs, scales))
        assert least * (1 - 1e-9) <= value(W[:, label]) <= least * 1.001


def test_ranking_is_that_of_the_dense_margins(data):
    X, dataset = data
    rank = train_labels(X, dataset, OneVsAllConfig(block_size=7), Job())
    W = weights_of(rank)
    margins = X.toarray() @ W[:-1] + W[-1]
    never = np.diff(dataset.Y.tocsc().indptr) == 0
    assert never.any() and (rank.weights.flags == np.where(never, ABSENT, 0)).all()
    margins[:, never] = -np.inf
    for rows in (X, X[:1]):
        found = rank.rank(rows, Everything(rank.n).candidates(rows, None), Join(), 5)
        for i in range(rows.shape[0]):
            ids = found.ids[found.indptr[i] : found.indptr[i + 1]]
            scores = found.score[found.indptr[i] : found.indptr[i + 1]]
            np.testing.assert_allclose(scores, np.sort(margins[i])[::-1][:5], atol=1e-5)
            np.testing.assert_allclose(margins[i][ids], scores, atol=1e-5)


def test_same_bits_for_any_threads_and_block(data):
    X, dataset = data
    with threads.limited(1):
        alone = train_labels(X, dataset, OneVsAllConfig(block_size=16), Job())
    with threads.limited(3):
        assert same(train_labels(X, dataset, OneVsAllConfig(block_size=16), Job()), alone)
    other = train_labels(X, dataset, OneVsAllConfig(block_size=40), Job())
    np.testing.assert_array_equal(weights_of(other), weights_of(alone))


def test_both_solvers_rank_alike(data):
    X, dataset = data
    ours, newton = (
        weights_of(train_labels(X, dataset, OneVsAllConfig(solver=name, eps=1e-4, gap=1e-8, threshold=0.0), Job()))
        for name in ("working_set", "newton")
    )
    np.testing.assert_allclose(ours, newton, atol=0.02)


def test_a_killed_job_goes_on_behind_the_last_block(data, tmp_path, monkeypatch):
    X, dataset = data
    config = OneVsAllConfig(block_size=8)
    whole = train_labels(X, dataset, config, Job(work=tmp_path / "whole"))
    solve, calls = one_vs_all.solve_block, []

    def dies(shared, targets, span, *rest):
        calls.append(span)
        if span[0] >= 24 and len(calls) < 5:
            raise KeyboardInterrupt
        return solve(shared, targets, span, *rest)

    monkeypatch.setattr(one_vs_all, "solve_block", dies)
    with pytest.raises(KeyboardInterrupt):
        train_labels(X, dataset, config, Job(work=tmp_path / "killed"))
    before = len(calls)
    again = train_labels(X, dataset, config, Job(work=tmp_path / "killed"))
    assert calls[before:] == [(24, 32), (32, 40)]
    assert same(whole, again)


def test_pairs_of_a_filter_are_no_negatives(data):
    X, dataset = data
    text = int(np.flatnonzero(dataset.Y[:, [0]].toarray().ravel() == 0)[0])
    filtered = dataclasses.replace(dataset, filter_pairs=np.array([[text, 0]]))
    config = OneVsAllConfig(cost=100.0, threshold=0.0)
    before, after = (weights_of(train_labels(X, d, config, Job())) for d in (dataset, filtered))
    assert not np.array_equal(before[:, 0], after[:, 0])
    np.testing.assert_array_equal(before[:, 1:], after[:, 1:])


def test_recipe_prunes_and_stores(tmp_path):
    settings = {"tfidf": {"min_df": 1}, "linear": {"threshold": 0.3, "storage": "float16"}}
    model = treetop.fit("dismec", toy.dataset(), settings=settings, out=tmp_path / "model")
    rank = model.members[0][0].rank
    assert rank.weights.weights.dtype == np.uint16
    assert np.abs(rank.weights.weights.view(np.float16)).min() >= 0.299
    loaded = treetop.load(tmp_path / "model", check="full")
    assert loaded.evaluate(toy.dataset(), resamples=0)["P@1"] > 90


def test_one_label_and_more_wanted_than_there_are():
    settings = {"tfidf": {"min_df": 1}}
    model = treetop.fit("dismec", ["cat food", "dog food", "fish"], [["x"], ["x"], []], settings=settings)
    assert [label.name for label in model.predict(["cat"], k=10)[0]] == ["x"]
