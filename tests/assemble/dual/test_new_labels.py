"""Where labels added later will lie in a dual encoder with a classifier."""

import numpy as np
import pytest

from treetop.assemble.dual.new_labels import kth_margin, with_map
from treetop.rank.dual import Dual
from treetop.rank.text_map import unit

HIDDEN = 30


def world(n=330, width=16, own=16, noise=0.5):
    """(model of the first labels, counts, documents, labels' vectors of all): half of a classifier is in its texts."""
    rng = np.random.default_rng(0)
    texts = unit(rng.normal(size=(n, width))).astype(np.float32)
    told = 4 * texts @ rng.normal(size=(width, own)) / np.sqrt(width)
    V = (told + noise * rng.normal(size=told.shape)).astype(np.float32)
    bias = rng.normal(size=n).astype(np.float32) - 3
    true = rng.integers(n, size=500)
    documents = np.hstack([8 * unit(texts[true] + 0.2 * rng.normal(size=(500, width))), unit(V[true])])
    weight, widths = np.hstack([texts, V]), {"dual": width, "classifier": own}
    counts = rng.integers(1, 30, size=n - HIDDEN)
    rank = Dual(weight[:-HIDDEN], bias[:-HIDDEN], widths=widths, text=(2.0, -5.0))
    return rank, counts, documents.astype(np.float32), true, weight


@pytest.mark.parametrize("own", [16, 10])
def test_new_labels_are_found_and_get_their_share_of_the_answers(own):
    rank, counts, documents, true, weight = world(own=own)
    made = with_map(rank, documents[:250], counts)
    assert made.weight is rank.weight and made.bias is rank.bias and made.text == rank.text
    rows, numbers = made.of_new(weight[-HIDDEN:, :16], np.arange(len(counts)))
    scores = documents @ np.vstack([rank.weight, rows]).T + np.append(rank.bias, numbers)
    top = np.argsort(-scores, axis=1)[:, :10]
    assert 0.5 * HIDDEN / 330 < (top >= 300).mean() < 2 * HIDDEN / 330
    hidden = true >= 300
    assert hidden.sum() > 20 and (top[hidden] == true[hidden, None]).any(1).mean() > 0.9
    asked = np.hstack([8 * weight[-HIDDEN:, :16], unit(weight[-HIDDEN:, 16:])])  # its own text
    first = (asked @ np.vstack([rank.weight, rows]).T + np.append(rank.bias, numbers)).argmax(1)
    assert (first == np.arange(300, 330)).mean() > 0.9


def test_labels_guessed_as_new_ones_are_returned_as_often_as_trained_ones():
    rank, counts, documents, _, _ = world()
    counts[::3] = 0  # not seen: neither neighbours nor measured
    seen = np.flatnonzero(counts)
    made = with_map(rank, documents, counts)
    below = kth_margin(rank, documents, seen, 10)
    expected = np.sort(documents @ rank.weight[seen].T + rank.bias[seen], axis=1)[:, -10]
    np.testing.assert_allclose(below, expected, rtol=1e-5)
    guess = [made.of_new(rank.texts(seen[[i]]), np.delete(seen, i)) for i in range(len(seen))]
    rows, numbers = np.vstack([row for row, _ in guess]), np.concatenate([number for _, number in guess])
    above = (documents @ rows.T + numbers > below[:, None]).mean()
    assert above == pytest.approx(10 / len(seen), rel=0.25)  # the regression has seen each of them here


def test_nothing_is_measured_where_nothing_can_be():
    rank, counts, documents, _, _ = world()
    few = np.where(np.arange(len(counts)) < 19, counts, 0)
    assert with_map(rank, documents, few) is rank and with_map(rank, documents[:0], counts) is rank
    alone = Dual(rank.part("dual"), rank.bias, widths={"dual": 16})
    assert with_map(alone, documents[:, :16], counts) is alone
    assert with_map(rank, documents, np.where(np.arange(len(counts)) < 20, counts, 0)).new is not None


def test_blocks_of_labels_change_no_bar(monkeypatch):
    rank, counts, documents, _, _ = world()
    whole = kth_margin(rank, documents, np.arange(len(counts)), 10)
    monkeypatch.setattr("treetop.assemble.dual.new_labels.BLOCK", 7)
    np.testing.assert_allclose(kth_margin(rank, documents, np.arange(len(counts)), 10), whole, rtol=1e-5)
