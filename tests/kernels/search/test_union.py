"""Rankings side by side, against their slow twin: random, empty, tied, one label, many sources."""

from itertools import pairwise

import numpy as np
import pytest

from treetop.kernels import reference
from treetop.kernels.runtime import threads
from treetop.kernels.search.union import best_of_rows, union


def source(rng, n, labels, most, tied):
    sizes = rng.integers(0, most + 1, n)
    indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    ids = np.concatenate([rng.permutation(labels)[:size] for size in sizes] or [[]]).astype(np.int32)
    draw = rng.integers(0, 3, len(ids)) if tied else rng.normal(size=len(ids))
    score = np.concatenate([np.sort(draw[a:b])[::-1] for a, b in pairwise(indptr)] or [[]])
    return indptr, ids, score.astype(np.float32)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(
    ("n", "labels", "most", "sources"), [(0, 5, 3, 2), (700, 40, 12, 3), (5, 1, 1, 1), (3, 9, 0, 2)]
)
def test_against_the_slow_twins(n, labels, most, sources, tied):
    rng = np.random.default_rng(n)
    lists = [source(rng, n, labels, most, tied) for _ in range(sources)]
    expected = reference.union(lists)
    for count in (1, 3):
        with threads.limited(count):
            found = union(lists)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)
    indptr, ids, score, _, _ = found
    own = rng.normal(size=len(ids)).astype(np.float32)
    first = score[:, 0].copy()
    for k in (1, 4, 100):
        for one, other in zip(
            best_of_rows(indptr, ids, first, own, k), reference.best_of_rows(indptr, ids, first, own, k), strict=True
        ):
            np.testing.assert_array_equal(one, other)
