"""Promises that need real data or a million labels. `make slow`."""

import numpy as np
import pytest
from scipy import sparse

import treetop
from treetop.core.dataset import Dataset, LabelSet
from treetop.core.texts import Texts

pytestmark = pytest.mark.slow


def test_words_add_up_to_margins_on_a_thousand_random_predictions():
    """The sum of a label's contributions is its margin within 1e-5 on every level of its path."""
    model = treetop.fit("xr_linear", Dataset.read("wordnet"))
    test = Dataset.read("wordnet", "test")
    rng = np.random.default_rng(0)
    checked, worst = 0, 0.0
    for row in rng.permutation(len(test))[:250]:
        for found in model.explain(test.texts[int(row)], k=4):
            for way in found.members:
                for step in way.steps:
                    total = step.base + sum(word.contribution for word in step.words)
                    worst = max(worst, abs(total - step.margin))
                assert way.steps[-1].score == pytest.approx(found.label.score, abs=1e-5)
            checked += 1
    assert checked == 1000
    assert worst < 1e-5


def test_a_million_labels_with_one_text_each(tmp_path):
    """Each label has one text with two words of its own: training ends, the model opens and finds the text again."""
    n = 1_000_000
    rng = np.random.default_rng(0)
    columns = np.stack([np.arange(n) // 1000, 1000 + rng.integers(0, 200_000, n), 201_000 + np.arange(n) % 1000], 1)
    data = np.full(3 * n, 3**-0.5, np.float32)
    X = sparse.csr_matrix((data, columns.ravel().astype(np.int32), np.arange(0, 3 * n + 1, 3)), (n, 202_000))
    X.sum_duplicates()
    Y = sparse.identity(n, np.float32, "csr")
    labels = LabelSet.of([f"L{i}" for i in range(n)])
    dataset = Dataset(Texts.of([""] * n), Y, labels, features={"given": X}, name="one each")
    treetop.fit("xr_linear", dataset, out=tmp_path / "m")
    model = treetop.load(tmp_path / "m")
    rows = rng.choice(n, 2000, replace=False)
    found = model.rank_dataset(dataset.take(rows), 1)
    assert np.mean(found.ids == rows) > 0.95
