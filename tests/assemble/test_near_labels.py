"""Shortlists against a plain loop, and the targets that stand in their first places."""

import dataclasses

import numpy as np
import pytest

pytest.importorskip("torch")
import torch

import toy
from toy_network import CPU, batch
from treetop.assemble.near_labels import Positives, nearest, nearest_of_all, shortlists
from treetop.core.types import Join, Level, Ranking
from treetop.network.candidates.given import GivenLabels
from treetop.network.targets import BatchTargets, TargetRows
from treetop.rank.head import Head
from treetop.shortlist.everything import Everything


def found_for(n, n_labels, rng):
    rows = [rng.permutation(n_labels)[: rng.integers(0, 12)] for _ in range(n)]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    ids = np.concatenate(rows).astype(np.int32)
    return rows, Ranking(indptr, ids, np.zeros(len(ids), np.float32), np.zeros(len(ids), np.float32))


@pytest.mark.parametrize("width", [1, 5, 30])
def test_own_labels_then_found_ones_without_ignored_pairs(width):
    rng = np.random.default_rng(0)
    pairs = np.column_stack([rng.integers(0, 60, 200), rng.integers(0, 40, 200)])
    data = dataclasses.replace(toy.dataset(), filter_pairs=pairs)
    rows, found = found_for(len(data), data.n_labels, rng)
    data.Y.data[:] = rng.permutation(np.linspace(0.1, 1.0, data.Y.nnz))
    made = shortlists(Positives.of(data), found, width)
    ignored = set(map(tuple, pairs.tolist()))
    dense = data.Y.toarray()
    assert any((i, label) in ignored for i in range(len(data)) for label in data.Y[i].indices)
    for i, row in enumerate(rows):
        own = [label for label in data.Y[i].indices.tolist() if (i, label) not in ignored]  # no positives
        own.sort(key=lambda label: -dense[i, label])  # where not all fit, the surest stay
        more = [label for label in row.tolist() if label not in own and (i, label) not in ignored]
        expected = (own + more)[:width]
        assert made[i].tolist() == expected + [-1] * (width - len(expected))


@pytest.mark.parametrize("beam", [1, 7, 60])
def test_all_labels_scored_at_once_are_those_the_level_finds(beam):
    rng = np.random.default_rng(1)
    bias = np.where(rng.random(40) < 0.2, -np.inf, 0.0).astype(np.float32)
    head = Head(rng.normal(size=(40, 8)).astype(np.float32), bias)
    level = Level("near", Everything(40), head, Join("sigmoid"), beam)
    H, cpu = rng.normal(size=(9, 8)).astype(np.float32), torch.device("cpu")
    at_once, found = nearest_of_all(H, head, beam, cpu), nearest(H, level, cpu)
    np.testing.assert_array_equal(at_once.indptr, found.indptr)
    np.testing.assert_array_equal(at_once.ids, found.ids)
    assert not np.isin(at_once.ids, np.flatnonzero(np.isinf(bias))).any()


@pytest.mark.parametrize("width", [1, 6])
def test_values_stand_where_own_labels_stand(width):
    data = toy.dataset()
    rng = np.random.default_rng(2)
    data.Y.data[:] = rng.permutation(np.linspace(0.1, 1.0, data.Y.nnz))
    weights = data.Y.copy()
    weights.data[:] = rng.uniform(1, 5, weights.nnz)
    own = Positives.of(dataclasses.replace(data, relevance=weights))
    _, found = found_for(len(data), data.n_labels, np.random.default_rng(1))
    lists, rows = shortlists(own, found, width), np.array([7, 0, 59, 7])
    given = GivenLabels(lists, CPU)
    for matrix, whole in ((own.Y, data.Y), (own.relevance, weights)):
        targets, dense = TargetRows(matrix, CPU).gather(rows), whole.toarray()
        values = given.choose(BatchTargets(targets), given.load(batch(rows), False), None).find(targets)
        for i, row in enumerate(rows):
            expected = [dense[row, label] if label >= 0 else 0.0 for label in lists[row]]
            np.testing.assert_allclose(values[i], expected)
