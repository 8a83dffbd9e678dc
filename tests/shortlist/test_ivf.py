import numpy as np
import pytest

from treetop.core.errors import ModelError
from treetop.shortlist.ivf import Ivf


def vectors(n=300, width=8, seed=0):
    rng = np.random.default_rng(seed)
    V = rng.normal(size=(n, width)).astype(np.float32)
    return V / np.linalg.norm(V, axis=1, keepdims=True)


def lists(V, bias=None, **changes):
    return Ivf.of(V, np.zeros(len(V), np.float32) if bias is None else bias, **changes)


def test_lists_hold_every_label_once_and_candidates_are_those_of_the_nearest():
    V = vectors()
    made = lists(V, probe=3, size=20)
    assert sorted(made.members.tolist()) == list(range(300)) and len(made.centres) == 8
    Q = vectors(5, seed=1)
    found = made.candidates(Q, None)
    for row in range(5):
        near = np.argsort(-(made.centres @ Q[row]))[:3]
        expected = {m for c in near for m in made.members[made.indptr[c] : made.indptr[c + 1]].tolist()}
        assert set(found.ids[found.indptr[row] : found.indptr[row + 1]].tolist()) == expected
    for leaf in range(8):
        own = V[made.members[made.indptr[leaf] : made.indptr[leaf + 1]]]
        np.testing.assert_allclose(made.centres[leaf], own.mean(0), atol=1e-6)


def test_all_lists_are_everything_and_few_find_most():
    V, Q = vectors(1000), vectors(50, seed=2)
    best = np.argsort(-(Q @ V.T), axis=1)[:, :10]
    shares = []
    for probe in (1, 4, 99):
        found = lists(V, probe=probe, size=30).candidates(Q, None)
        hit = [np.isin(best[r], found.ids[found.indptr[r] : found.indptr[r + 1]]).mean() for r in range(50)]
        shares.append(np.mean(hit))
    assert shares[0] < shares[1] < shares[2] == 1.0 and shares[1] > 0.3


def test_what_labels_add_to_their_products_counts():
    V, Q = vectors(), vectors(5, seed=1)
    plain = lists(V, probe=2, size=20)
    far = plain.members[plain.indptr[5] : plain.indptr[6]]
    bias = np.zeros(300, np.float32)
    bias[far] = 9.0
    found = lists(V, bias, probe=2, size=20).candidates(Q, None)
    for row in range(5):
        assert set(far.tolist()) <= set(found.ids[found.indptr[row] : found.indptr[row + 1]].tolist())


def test_saved_and_damaged():
    made = lists(vectors(), probe=3, size=20)
    again = Ivf.from_part(made.to_part())
    Q = vectors(4, seed=3)
    assert np.array_equal(made.candidates(Q, None).ids, again.candidates(Q, None).ids)
    part = made.to_part()
    for name, value in (("members", made.members + 1), ("indptr", made.indptr[::-1].copy())):
        with pytest.raises(ModelError):
            Ivf.from_part(type(part)(part.kind, part.config, {**part.arrays, name: value}))
    with pytest.raises(ModelError, match="got a view of 3 columns"):
        made.candidates(np.zeros((1, 3), np.float32), None)


def test_a_single_label_is_found():
    found = lists(vectors(1), probe=5).candidates(vectors(2, seed=1), None)
    assert found.ids.tolist() == [0, 0] and found.indptr.tolist() == [0, 1, 2]
