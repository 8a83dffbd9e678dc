from __future__ import annotations

import numpy as np
import pytest

from treetop.kernels import metrics, reference

DEPTH = 6


def random_rows(seed: int, *, rows: int = 60, n_ids: int = 15):
    rng = np.random.default_rng(seed)
    ranked = [rng.integers(0, n_ids, rng.integers(0, 12)).tolist() for _ in range(rows)]  # with repeats
    true = [set(rng.permutation(n_ids)[: rng.integers(0, 10)].tolist()) for _ in range(rows)]
    pairs = [(row, id_) for row in range(rows) for id_ in rng.permutation(n_ids)[: rng.integers(0, 4)].tolist()]
    return ranked, true, np.array(pairs, np.int64)[rng.permutation(len(pairs))], rng.random(n_ids) + 0.5


def packed(rows):
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    return indptr, np.array([id_ for row in rows for id_ in sorted(row)], np.int32)


def frozen(*arrays):
    for array in arrays:
        array.flags.writeable = False
    return arrays


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("read_only", [False, True])
def test_rows_equal_the_reference(seed, read_only):
    ranked, true, pairs, weights = random_rows(seed)
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in ranked])]).astype(np.int64)
    ids = np.array([id_ for row in ranked for id_ in row], np.int32)
    rows = np.arange(len(ranked))
    if read_only:
        frozen(indptr, ids, weights)
    top = np.full((len(ranked), DEPTH), 99, np.int32)
    metrics.first_allowed(indptr, ids, rows, *metrics.grouped(pairs, len(ranked)), top)
    wanted = reference.first_allowed(ranked, set(map(tuple, pairs.tolist())), DEPTH)
    assert [[id_ for id_ in row if id_ >= 0] for row in top.tolist()] == wanted

    hits = np.empty(top.shape, np.bool_)
    metrics.find_hits(top, *packed(true), hits)
    assert hits.tolist() == reference.find_hits(top.tolist(), true)

    cuts = np.array([1, 2, 6])
    sums = np.empty((len(ranked), 8 * len(cuts) + 1))
    metrics.row_sums(top, hits, *packed(true), weights, cuts, sums)
    for i, truth in enumerate(true):
        for c, k in enumerate(cuts.tolist()):
            row = reference.row_sums(wanted[i], truth, weights.tolist(), k)
            assert sums[i, 8 * c : 8 * c + 8] == pytest.approx([row[name] for name in metrics.PER_CUT], abs=1e-12)
        assert sums[i, -1] == len(truth)


def test_sums_over_draws_and_choices():
    rng = np.random.default_rng(0)
    table = rng.random((21, 5))
    starts = np.array([0, 7, 7, 30])
    draws = rng.integers(0, 21, 30, dtype=np.uint16)
    sums = np.empty((3, 5))
    metrics.drawn_sums(table, draws, starts, sums)
    assert sums == pytest.approx(reference.drawn_sums(table, draws, starts))
    chosen = rng.integers(0, 256, (4, 3), dtype=np.uint8)
    sums = np.empty((4, 5))
    metrics.chosen_sums(table, chosen, sums)
    assert sums == pytest.approx(reference.chosen_sums(table, chosen))
