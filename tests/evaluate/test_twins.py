import numpy as np
import pytest

from ranking_cases import dataset_of, ranking_of
from treetop.core.dataset import Dataset, LabelSet
from treetop.evaluate import twins as module
from treetop.evaluate.match import Matches
from treetop.evaluate.twins import twins


def matches_of(names, counts=None):
    n = len(names)
    plain = dataset_of([{0: 1.0}], n)
    data = Dataset(plain.texts, plain.Y, LabelSet.of([f"l{i}" for i in range(n)], names))
    return Matches.of(ranking_of([{0: 1.0}]), data, np.ones(n, np.int64) if counts is None else np.array(counts), 99)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Wild cats", "wild-cats", True),
        ("wildcats", "Wild Cats!", True),
        ("STRASSE", "Straße", True),
        ("cats, wild", "wild cat", False),
        ("dog", "dogs", False),
        ("C++", "C#", None),
        ("version 1.5", "version 15", None),
        ("glass", "glas", None),
        ("...", "?!", None),
        ("cat", "dog", None),
    ],
)
def test_names_that_are_alike(one, other, same):
    found = twins(matches_of(["first", one, "between", other]))
    assert found == ([] if same is None else [((1, 3), same)])


def test_the_same_name_comes_first_then_the_frequent_ones():
    names = ["dog", "dogs", "a cat", "A-cat", "a.cat", "x y", "X Y"]
    found = twins(matches_of(names, [50, 40, 1, 3, 2, 5, 6]))
    assert [group.columns for group in found] == [(6, 5), (3, 4, 2), (0, 1)]
    assert twins(matches_of(names), 1)[0].columns == (2, 3, 4)


def test_of_many_labels_the_frequent_ones_are_compared(monkeypatch):
    monkeypatch.setattr(module, "LABELS", 3)
    assert twins(matches_of(["a b", "a-b", "c d", "c-d"], [1, 9, 9, 9])) == [((2, 3), True)]
