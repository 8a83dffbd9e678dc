"""Rows of the label graph against counting every pair by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from treetop.kernels import reference
from treetop.kernels.graph import cooccurrence
from treetop.kernels.graph.cooccurrence import Rule, shares
from treetop.kernels.runtime import threads
from treetop.kernels.sparse import csr_of, rows_of


def made(Y, rule, *span):
    Y = sparse.csr_matrix(Y, dtype=np.float32)
    return csr_of(shares(rows_of(Y.T.tocsr()), rows_of(Y), rule, *span), Y.shape[1])


def targets(seed, n=25, labels=9, density=0.3):
    rng = np.random.default_rng(seed)
    Y = (rng.random((n, labels)) < density * rng.random(labels) * 2).astype(np.float32)
    Y[:, rng.integers(labels)] = 0  # a label never seen
    return Y


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0]), st.sampled_from([0.0, 1.5]), st.booleans())
def test_equals_counting_by_hand(seed, delta, shrink, symmetric):
    Y = targets(seed)
    found = made(Y, Rule(delta, shrink, symmetric))
    np.testing.assert_allclose(found.toarray(), reference.label_shares(Y, delta, shrink, symmetric), rtol=1e-6)
    assert found.dtype == np.float32 and found.has_sorted_indices


def test_the_threshold_is_strict():
    Y = np.zeros((20, 3), np.float32)
    Y[:10, 0] = 1
    Y[0, 1] = 1  # one of ten: exactly 0.1
    Y[:2, 2] = 1
    row = made(Y, Rule(0.1, 0.0, False)).toarray()[0]
    assert row.tolist() == pytest.approx([1.0, 0.0, 0.2])


def test_same_bits_for_any_threads_and_for_parts(monkeypatch):
    Y = targets(3, n=200, labels=60)
    rule = Rule(0.05, 0.0, False)
    whole = made(Y, rule)
    monkeypatch.setattr(cooccurrence, "BLOCK", 7)
    for n in (1, 3):
        with threads.limited(n):
            parts = made(Y, rule)
        assert np.array_equal(parts.data, whole.data) and np.array_equal(parts.indices, whole.indices)
    part = made(Y, rule, 10, 25).toarray()
    assert np.array_equal(part, whole.toarray()[10:25])
    assert made(Y, rule, 5, 5).shape == (0, 60)


def test_rows_longer_than_the_first_room():
    Y = np.ones((2, 100), np.float32)
    assert made(Y, Rule(0.1, 0.0, False)).nnz == 10_000
