"""The union of rankings against a slow twin."""

import numpy as np
import pytest

from treetop.core.types import Ranking
from treetop.predict.fuse.pairs import Pairs


def ranking(rows):
    """From a list of {label: score}."""
    indptr = np.cumsum([0, *map(len, rows)])
    ids = np.array([label for row in rows for label in row], np.int32)
    return Ranking.sorted(indptr, ids, np.array([s for row in rows for s in row.values()], np.float32))


def slow(sources):
    """[(document, label, scores, found)] by the definition."""
    result = []
    for d in range(len(sources[0])):
        for label in sorted({label for source in sources for label in source[d]}):
            scores = [source[d].get(label, min(source[d].values(), default=0.0)) for source in sources]
            result.append((d, label, scores, [label in source[d] for source in sources]))
    return result


@pytest.mark.parametrize("seed", range(5))
def test_pairs_are_those_of_the_slow_twin(seed):
    rng = np.random.default_rng(seed)

    def draw():
        return {int(i): float(np.round(rng.normal(), 1)) for i in rng.permutation(12)[: rng.integers(0, 6)]}

    sources = [[draw() for _ in range(7)] for _ in range(3)]
    sources[0][2] = sources[1][2] = sources[2][2] = {}  # a document of which nobody says anything
    pairs = Pairs.of([ranking(source) for source in sources])
    expected = slow(sources)
    assert list(zip(pairs.rows.tolist(), pairs.ids.tolist(), strict=True)) == [(d, label) for d, label, *_ in expected]
    np.testing.assert_allclose(pairs.score, np.array([scores for *_, scores, _ in expected]), atol=1e-6)
    assert np.array_equal(pairs.found, [found for *_, found in expected])
    best = [[max(source[d].values(), default=0.0) for source in sources] for d in range(7)]
    np.testing.assert_allclose(pairs.best, best, atol=1e-6)
    np.testing.assert_allclose(pairs.gap, pairs.score - pairs.best[pairs.rows])


def test_no_documents_and_nothing_returned():
    assert len(Pairs.of([ranking([]), ranking([])])) == 0
    empty = Pairs.of([ranking([{}, {}])])
    assert len(empty) == 0 and empty.indptr.tolist() == [0, 0, 0]
