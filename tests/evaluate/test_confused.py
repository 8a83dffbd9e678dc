from collections import Counter

import numpy as np
import pytest

from ranking_cases import dataset_of, random_case, ranking_of
from treetop.evaluate import confused
from treetop.evaluate.confused import confused_pairs
from treetop.evaluate.match import Matches


def slow(matches):
    """Every wrong label in reach with every missed one, document by document."""
    pairs = Counter()
    for row in range(len(matches)):
        true = matches.true[matches.true_indptr[row] : matches.true_indptr[row + 1]].tolist()
        first = [label for label in matches.top[row, : len(true)].tolist() if label >= 0]
        missed = [label for label in true if label not in first]
        if len(missed) <= confused.MOST:
            pairs.update((a, b) for a in first if a not in true for b in missed)
    return pairs


@pytest.mark.parametrize("seed", range(5))
def test_pairs_are_counted_as_by_hand(seed):
    matches = Matches.of(*random_case(seed, rows=300, n_labels=25).arguments)
    expected = slow(matches)
    found, _ = confused_pairs(matches, n=10**6)
    assert {(a, b): n for a, b, n in found} == dict(expected)
    assert [pair.documents for pair in found] == sorted(expected.values(), reverse=True)
    assert confused_pairs(matches, n=7)[0] == found[:7]


def test_close_pairs_are_those_whose_errors_come_together():
    # 0 is wrong beside everything, 5 only where 6 is missed
    scores = [{0: 1.0}] * 30 + [{5: 1.0}] * 6
    true = [{1 + i % 4: 1.0} for i in range(30)] + [{6: 1.0}] * 6
    matches = Matches.of(ranking_of(scores), dataset_of(true, 7), np.ones(7, np.int64), 10)
    frequent, close = confused_pairs(matches)
    assert frequent[0][:2] == (0, 1) and close[0] == (5, 6, 6)


def test_documents_are_sampled_evenly_and_those_that_miss_very_much_left_out(monkeypatch):
    monkeypatch.setattr(confused, "ROWS", 10)
    monkeypatch.setattr(confused, "MOST", 2)
    true = [{1: 1.0} if i % 2 else {1: 1.0, 2: 1.0, 3: 1.0} for i in range(100)]
    matches = Matches.of(ranking_of([{0: 1.0}] * 100), dataset_of(true, 4), np.ones(4, np.int64), 10)
    frequent, _ = confused_pairs(matches)
    assert len(frequent) == 1 and frequent[0][:2] == (0, 1) and 1 <= frequent[0].documents <= 10


@pytest.mark.parametrize("scores", [[{}, {}], [{0: 1.0}, {}]])
def test_nothing_wrong_gives_no_pairs(scores):
    matches = Matches.of(ranking_of(scores), dataset_of([{0: 1.0}, {}], 2), np.array([3, 0]), 10)
    assert confused_pairs(matches) == ([], [])
