from itertools import pairwise

import numpy as np
import pytest

from treetop.core.errors import ConfigError
from treetop.core.types import Join, Ranking
from treetop.predict.blend import blended, check_blend, check_weights


def ranking(rows):
    ends = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    cells = [cell for row in rows for cell in row]
    return Ranking.sorted(ends, np.array([i for i, _ in cells], np.int32), np.array([s for _, s in cells], np.float32))


PARTS = [ranking([[(1, 0.9), (2, 0.5)], []]), ranking([[(2, 0.8)], [(0, 0.3)]])]


def cells(found):
    return [
        list(zip(found.ids[a:b].tolist(), (round(x, 4) for x in found.score[a:b].tolist()), strict=True))
        for a, b in zip(found.indptr[:-1], found.indptr[1:], strict=True)
    ]


def test_absent_counts_zero():
    assert cells(blended(PARTS, "average", 5)) == [[(2, 0.65), (1, 0.45)], [(0, 0.15)]]
    assert cells(blended(PARTS, "average", 1)) == [[(2, 0.65)], [(0, 0.15)]]
    assert cells(blended(PARTS, "rank_average", 5)) == [[(2, 1.5), (1, 1.0)], [(0, 0.5)]]
    first = 1 / (1 + np.exp(-0.4))
    assert cells(blended(PARTS, "softmax_average", 5)) == [
        [(2, round((1 - first + 1) / 2, 4)), (1, round(first / 2, 4))],
        [(0, 0.5)],
    ]
    assert cells(blended(PARTS[:1], "average", 1)) == [[(1, 0.9)], []]


def test_averaging_raw_margins_is_refused_by_name():
    with pytest.raises(ConfigError, match="'average' needs scores from 0 to 1, but a member's last level gives 'noop'"):
        check_blend("average", [Join("sigmoid"), Join()])
    with pytest.raises(ConfigError, match="gives 'log_hinge3'"):
        check_blend("average", [Join("log_hinge3")])
    check_blend("rank_average", [Join()])


def test_an_unknown_blend_is_refused_with_a_guess():
    with pytest.raises(ConfigError, match="unknown value 'averages'.*Did you mean 'average'"):
        check_blend("averages", [])


def some(random, n, n_labels=12):
    """Rankings with empty rows, ties and labels that others lack."""
    rows = []
    for _ in range(n):
        ids = random.choice(n_labels, random.integers(0, 8) * random.integers(0, 2), replace=False)
        rows.append([(i, s) for i, s in zip(ids.tolist(), random.integers(0, 5, len(ids)) / 4, strict=True)])
    return ranking(rows)


def averaged(parts, how, weights):
    """{label: score} of each row, one label after the other."""
    rows = []
    for row in range(len(parts[0])):
        found, voters = {}, [part for part, weight in zip(parts, weights, strict=True) if weight]
        longest = max(part.indptr[row + 1] - part.indptr[row] for part in voters)
        for part, weight in zip(parts, weights, strict=True):
            a, b = part.indptr[row], part.indptr[row + 1]
            whole = sum(np.exp(float(s)) for s in part.score[a:b])
            for place, (label, score) in enumerate(zip(part.ids[a:b].tolist(), part.score[a:b].tolist(), strict=True)):
                votes = {"average": score, "rank_average": longest - place, "softmax_average": np.exp(score) / whole}
                if weight:
                    found[label] = found.get(label, 0.0) + weight * votes[how] / sum(weights)
        rows.append(found)
    return rows


@pytest.mark.parametrize("how", ["average", "rank_average", "softmax_average"])
@pytest.mark.parametrize("seed", range(20))
def test_weights_against_a_plain_twin(how, seed):
    random = np.random.default_rng(seed)
    parts = [some(random, 9) for _ in range(random.integers(2, 5))]
    weights = tuple((random.integers(0, 4, len(parts)) / 3).tolist())
    weights = weights if sum(weights) else (0.0, 2 / 3, *weights[2:])
    whole = blended(parts, how, 99, weights)
    slow = averaged(parts, how, weights)
    for (a, b), expected in zip(pairwise(whole.indptr.tolist()), slow, strict=True):
        found = list(zip(whole.ids[a:b].tolist(), whole.score[a:b].tolist(), strict=True))
        assert dict(found) == pytest.approx(expected, rel=1e-6) and len(found) == len(expected)
        assert found == sorted(found, key=lambda cell: (-cell[1], cell[0]))
    assert cells(blended(parts, how, 3, weights)) == [row[:3] for row in cells(whole)]
    for factor in (8.0, 2.0**1020, 2.0**-1070):  # only their proportions count
        grown = blended(parts, how, 99, [factor * (weight * 3) for weight in weights])
        same = blended(parts, how, 99, [weight * 3 for weight in weights])
        assert np.array_equal(grown.ids, same.ids) and np.array_equal(grown.score, same.score)


@pytest.mark.parametrize("how", ["average", "rank_average", "softmax_average"])
def test_even_weights_are_no_weights_to_the_bit(how):
    random = np.random.default_rng(5)
    parts = [some(random, 30) for _ in range(3)]
    plain, even = blended(parts, how, 9), blended(parts, how, 9, (1.0, 1.0, 1.0))
    assert np.array_equal(plain.ids, even.ids) and np.array_equal(plain.score, even.score)


@pytest.mark.parametrize("how", ["average", "rank_average", "softmax_average"])
def test_a_document_is_answered_alike_among_others(how):
    random = np.random.default_rng(7)
    parts = [some(random, 30) for _ in range(3)]
    together = cells(blended(parts, how, 9))
    for row in range(30):
        lone = [part.where(np.repeat(np.arange(30) == row, np.diff(part.indptr))) for part in parts]
        lone = [Ranking(part.indptr[row : row + 2] - part.indptr[row], part.ids, part.score, part.own) for part in lone]
        assert cells(blended(lone, how, 9)) == [together[row]]


def test_a_member_of_weight_zero_adds_nothing():
    random = np.random.default_rng(6)
    parts = [some(random, 30) for _ in range(2)]
    alone = blended(parts, "average", 9, (0.3, 0.0))
    assert np.array_equal(alone.ids, parts[0].ids) and np.array_equal(alone.score, parts[0].score)


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        ((1, 2, 3), "weights: 3 for 2 members. Give one for each"),
        ((1,), "weights: 1 for 2 members"),
        ((1, -1), "weights: -1 is not a weight. Allowed: numbers of 0 or more."),
        ((1, float("nan")), "weights: nan is not a weight"),
        ((1, float("inf")), "weights: inf is not a weight"),
        ((True, 1), "weights: True is not a weight"),
        (("1", 1), "weights: '1' is not a weight"),
        ((1, 10**400), "weights: 10000"),
        ((0, 0.0), "weights: all 2 are 0. At least one must be above 0."),
    ],
)
def test_bad_weights_are_refused(weights, sentence):
    with pytest.raises(ConfigError, match=f"^{sentence}"):
        check_weights(weights, 2)


def test_good_weights_come_back_as_numbers():
    made = check_weights((1, np.float32(0.5), 0), 3)
    assert made == (1.0, 0.5, 0.0) and {type(weight) for weight in made} == {float}
    assert check_weights((), 3) == ()
