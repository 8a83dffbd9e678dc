from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treetop.kernels import reference
from treetop.kernels.search import topk

NUMBERS = st.floats(-(2.0**99), 2.0**99, width=32) | st.sampled_from([0.0, -0.0, 1.0, np.inf, -np.inf])


def test_keys_order_like_scores():
    scores = np.array([-np.inf, -3.0, -1e-40, -0.0, 0.0, 1e-40, 2.0, np.inf], np.float32)
    keys = [int(topk.key_of(score, np.int32(5))) for score in scores]
    assert keys[3] == keys[4]
    assert keys == sorted(keys)
    assert len(set(keys)) == 7
    assert topk.key_of(np.float32(1), np.int32(3)) > topk.key_of(np.float32(1), np.int32(4))


@settings(deadline=None)  # the first call compiles
@given(st.lists(NUMBERS, max_size=40) | st.lists(NUMBERS, min_size=90, max_size=200), st.integers(0, 12) | st.just(100))
def test_the_best_are_kept(scores, keep):
    best = topk.heaps(1, keep)
    for id_, score in enumerate(scores):
        key = np.uint64(topk.key_of(np.float32(score), np.int32(id_)))
        topk.push(best.size, best.keys, best.other, np.uint32(0), key, np.float32(id_))
    indptr, ids, found, own = topk.in_order(best, False)
    wanted = sorted(enumerate(scores), key=lambda item: (-item[1], item[0]))[:keep]
    assert indptr.tolist() == [0, len(wanted)]
    assert ids.tolist() == [id_ for id_, _ in wanted]
    assert found.tolist() == [score for _, score in wanted]
    assert own.tolist() == [float(id_) for id_, _ in wanted]


@settings(deadline=None)  # the first call compiles
@given(st.lists(NUMBERS, min_size=1, max_size=40), st.data())
def test_kth_largest_equals_sorting(values, data):
    k = data.draw(st.integers(1, len(values)))
    found = topk.kth_largest(np.array(values, np.float32), np.uint64(len(values)), np.empty(k, np.float32))
    assert found == sorted(values, reverse=True)[k - 1]
    rows = topk.kth_of_rows(np.array([values, values[::-1], [-x for x in values]], np.float32), k)
    assert rows.tolist() == [found, found, -sorted(values)[k - 1]]


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.lists(NUMBERS, max_size=20), max_size=5), st.integers(0, 12))
def test_the_best_of_rows_are_those_of_the_slow_twin(rows, keep):
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    score = np.array([x for row in rows for x in row], np.float32)
    ids = np.concatenate([np.arange(len(row))[::-1] for row in rows] or [[]]).astype(np.int32)
    ends, found, best, own = topk.best_of(indptr, ids, score, -score, keep)
    assert [found[a:b].tolist() for a, b in pairwise(ends)] == reference.best_of(indptr, ids, score, keep)
    assert np.array_equal(best, -own)


@pytest.mark.parametrize("room", [0, 5, 1000])
def test_rows_above_are_those_a_mask_finds(room):
    rng = np.random.default_rng(0)
    margins = np.round(rng.normal(size=(7, 90)), 1).astype(np.float32)
    bias = np.round(rng.normal(size=90), 1).astype(np.float32)
    bias[3], margins[2, 5] = -np.inf, np.nan
    floor = np.array([0.5, 9.0, np.finfo(np.float32).min, 0.0, 1.0, 0.3, 0.2], np.float32)
    sums = margins + bias
    rows, columns = np.nonzero(sums >= floor[:, None])
    found = topk.rows_above(margins, bias, floor, room)
    n = min(len(rows), room + 1)
    assert [len(part) for part in found] == [n] * 3
    for part, expected in zip(found, (rows, columns, sums[rows, columns]), strict=True):
        assert np.array_equal(part, expected[:n])
