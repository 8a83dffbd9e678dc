"""Rare labels are lifted; the most probable label of a document stays first where that is asked for."""

import itertools

import numpy as np
import pytest

from treetop.core.errors import ModelError
from treetop.core.store import Part
from treetop.predict.fuse.rarity import PLAIN, Rarity

COUNTS = np.array([1, 5, 40, 300, 2000])


def slow(rarity, p, indptr, ids):
    """One document after the other."""
    factors, result = rarity.factors(COUNTS), []
    for first, last in itertools.pairwise(indptr):
        row = p[first:last]
        for value, label in zip(row, ids[first:last], strict=True):
            keeps = rarity.keep_first and value == row.max()
            result.append(value if keeps else value * factors[label])
    return np.array(result, np.float32)


@pytest.mark.parametrize("keep_first", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_lifted_as_the_slow_twin(seed, keep_first):
    rng = np.random.default_rng(seed)
    indptr = np.concatenate([[0], np.cumsum(rng.integers(0, 6, 30))])  # some documents without a label
    p = rng.integers(0, 9, indptr[-1]).astype(np.float32) / 8  # many ties
    ids = rng.integers(0, len(COUNTS), indptr[-1])
    rarity = Rarity.of(5000, 0.55, 1.5, 0.5, keep_first)
    lifted = rarity.lifted(p, indptr, ids, COUNTS)
    assert lifted.dtype == np.float32 and lifted.tolist() == slow(rarity, p, indptr, ids).tolist()
    if keep_first:
        for first, last in itertools.pairwise(indptr):
            if first < last:
                assert lifted[first + p[first:last].argmax()] == lifted[first:last].max()


def test_nothing_to_lift():
    none = np.zeros(0, np.float32)
    assert (
        len(Rarity.of(10, 0.55, 1.5, 1.0, keep_first=True).lifted(none, np.array([0, 0]), none.astype(int), COUNTS))
        == 0
    )


def test_models_of_older_versions_have_no_first_label_to_keep():
    config = Rarity.of(10, 0.55, 1.5, 0.3, keep_first=True).to_config()
    assert Rarity.from_part(Part("fusion.logistic.1", config)).keep_first
    del config["keep_first"]
    assert not Rarity.from_part(Part("fusion.logistic.1", config)).keep_first
    with pytest.raises(ModelError, match="keep_first"):
        Rarity.from_part(Part("fusion.logistic.1", config | {"keep_first": 1}))
    assert PLAIN.lifted(np.ones(2, np.float32), np.array([0, 2]), np.array([0, 4]), COUNTS).tolist() == [1, 1]
