import numpy as np

from ranking_cases import random_case
from treetop.evaluate.match import Matches
from treetop.evaluate.missing import LIKELY, PER_LABEL, likely_missing, missing_labels


def test_the_most_probable_wrong_labels_come_first():
    case = random_case(3, rows=300)
    p = np.random.default_rng(0).integers(0, 21, len(case.ranking.ids)).astype(np.float32) / 20
    matches = Matches.of(*case.arguments, probabilities=p)
    wrong = [
        (float(matches.probability[row, place]), row, int(matches.top[row, place]))
        for row, place in np.ndindex(matches.top.shape)
        if matches.top[row, place] >= 0 and not matches.hits[row, place]
    ]
    seen, expected = {}, []
    for probability, row, column in sorted(wrong, key=lambda item: (-item[0], matches.counts[item[2]], item[1])):
        if probability >= LIKELY and seen.setdefault(column, 0) < PER_LABEL:
            seen[column] += 1
            expected.append((row, column, probability))
    assert missing_labels(matches, 10**4) == expected and len(expected) > 50
    assert missing_labels(matches, 20) == expected[:20]
    assert likely_missing(matches, 0.9) == sum(probability >= np.float32(0.9) for probability, *_ in wrong)


def test_without_probabilities_none_is_likely():
    matches = Matches.of(*random_case(3).arguments)
    assert missing_labels(matches) == [] and likely_missing(matches, 0.0) == 0
