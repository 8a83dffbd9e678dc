"""Behind training: labels of equal texts, labels never seen, and what products mean."""

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
import toy
from treetop.assemble.dual.search import mean_log_sum, twins_prior, with_unseen
from treetop.rank.dual import Dual
from treetop.rank.text_map import unit


def test_labels_of_equal_texts_are_told_apart_by_their_counts():
    data = toy.dataset()
    prior = twins_prior(data)
    counts = data.label_counts
    for group in ([0, 18, 36], [1, 19, 37]):
        order = sorted(group, key=lambda label: (-counts[label], label))
        assert [float(prior[label]) for label in order] == sorted(
            (float(prior[label]) for label in group), reverse=True
        )
        assert len({float(prior[label]) for label in group}) == 3
        assert prior[order[0]] == pytest.approx(0.0, abs=0.01)


def test_unseen_labels_are_scored_by_their_texts_and_what_the_classifier_would_say():
    rng = np.random.default_rng(0)
    dual = unit(rng.normal(size=(200, 4))).astype(np.float32)
    own = np.hstack([0.5 * dual, np.zeros((200, 1))]).astype(np.float32)  # its scores are half the dual's, less 3
    queries = unit(rng.normal(size=(50, 4))).astype(np.float32)
    q = np.hstack([4 * queries, 4 * queries, np.ones((50, 1))]).astype(np.float32)
    unseen = np.arange(200) % 10 == 0
    own[unseen] = -9.0
    rank = Dual(np.hstack([dual, own]), np.full(200, -3, np.float32), widths={"dual": 4, "classifier": 5})
    prior = np.linspace(0, -1, 200, dtype=np.float32)
    made = with_unseen(rank, q, unseen, prior)
    assert made.text == pytest.approx((1.5, -3.0), abs=1e-4)
    scores = q @ made.weight.T + made.bias
    np.testing.assert_allclose(scores[:, unseen], 1.5 * 4 * queries @ dual[unseen].T - 3 + prior[unseen], atol=1e-4)
    assert np.array_equal(made.weight[~unseen], rank.weight[~unseen])
    plain = np.log(np.exp(scores.astype(np.float64)).sum(1)).mean()
    assert mean_log_sum(q, made) == pytest.approx(plain, rel=1e-5)
    alone = Dual(dual, np.zeros(200, np.float32), widths={"dual": 4})
    assert with_unseen(alone, q[:, :4], unseen, prior) is alone


@pytest.mark.parametrize("n", [1, 2, 5])
def test_too_few_labels_give_no_steep_line(n):
    """Scores of a few labels learned by heart say nothing about the slope between dual encoder and classifier."""
    rng = np.random.default_rng(0)
    dual = unit(rng.normal(size=(n, 16))).astype(np.float32)
    queries = unit(dual[np.arange(40) % n] + 0.02 * rng.normal(size=(40, 16))).astype(np.float32)
    q = np.hstack([20 * queries, 20 * queries]).astype(np.float32)
    rank = Dual(np.hstack([dual, 4 * dual]), np.full(n, -30, np.float32), widths={"dual": 16, "classifier": 16})
    made = with_unseen(rank, q, np.zeros(n, bool), np.zeros(n, np.float32))
    high = (q @ rank.weight.T + rank.bias).max(1).mean()
    factor, offset = made.text
    assert 20 * factor + offset == pytest.approx(high, abs=1e-3)  # at its own text as good as any
    assert high - 20.0 < 20 * 0.3 * factor + offset < high - 1.0  # a cosine of 0.3 is not lost
