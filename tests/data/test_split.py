import dataclasses

import numpy as np
import pytest
from scipy import sparse

from treetop.core.dataset import Dataset, LabelSet
from treetop.core.errors import ConfigError, InputError
from treetop.core.texts import Texts
from treetop.data.frame import from_lists
from treetop.data.split import holdout, normalise


def corpus(n=2000):
    return from_lists(
        [f"Text, number {i % (n // 2)}!" if i % 3 else f"text number {i % (n // 2)}" for i in range(n)], [["x"]] * n
    )


def test_equal_texts_never_cross_and_rows_are_parted():
    data = corpus()
    train, valid = holdout(data, 0.2, 0)
    assert sorted([*train, *valid]) == list(range(len(data)))
    assert 0.16 < len(valid) / len(data) < 0.24
    sides = [{normalise(data.texts[i]) for i in side} for side in (train, valid)]
    assert not sides[0] & sides[1]


def test_same_seed_same_rows_other_seed_others():
    data = corpus()
    assert np.array_equal(holdout(data, 0.1, 3)[1], holdout(data, 0.1, 3)[1])
    assert not np.array_equal(holdout(data, 0.1, 3)[1], holdout(data, 0.1, 4)[1])


def test_a_rows_side_does_not_depend_on_other_rows():
    data = corpus()
    rows = np.arange(0, len(data), 2)
    part = holdout(data.take(rows), 0.1, 0)[1]
    assert np.array_equal(rows[part], np.intersect1d(holdout(data, 0.1, 0)[1], rows))


def test_only_documents_are_validated_on():
    data = corpus(100)
    data = dataclasses.replace(data, roles=np.repeat([0, 1], 50).astype(np.uint8))
    train, valid = holdout(data, 0.3, 0)
    assert valid.max() < 50
    held = {normalise(data.texts[i]) for i in valid}
    assert not any(normalise(data.texts[i]) in held for i in train)


def test_texts_may_be_empty_when_there_are_features():
    X = sparse.csr_matrix(np.arange(40, dtype=np.float32).reshape(20, 2))
    data = Dataset(
        Texts.of([""] * 20), sparse.csr_matrix(np.ones((20, 1), np.float32)), LabelSet.of(["x"]), features={"given": X}
    )
    train, valid = holdout(data, 0.3, 0)
    assert len(train) > 5 and len(valid) > 1


def test_small_sets_have_both_sides():
    for seed in range(20):
        train, valid = holdout(from_lists(["a", "b"], [["x"], ["y"]]), 0.01, seed)
        assert len(train) == len(valid) == 1
        train, valid = holdout(from_lists(["a", "b"], [["x"], ["y"]]), 0.99, seed)
        assert len(train) == len(valid) == 1
    with pytest.raises(InputError, match="a split needs at least two different texts"):
        holdout(from_lists(["a", "A!"], [["x"], ["y"]]))
    with pytest.raises(ConfigError, match="fraction: 1 is out of range. Allowed: between 0 and 1"):
        holdout(corpus(100), 1)
