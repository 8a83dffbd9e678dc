import numpy as np
import pytest
from scipy import sparse

from treetop.core.errors import ModelError
from treetop.core.types import Candidates, Join
from treetop.rank.neighbours import Neighbours


def ranked(rank, X):
    return rank.rank(X, Candidates.all(X.shape[0], rank.n), Join(), 5)


@pytest.mark.parametrize("power", [0.0, 3.0, 8.0, 500.0])
def test_votes_that_vanish_are_still_counted_once(power):
    """Zero targets and tiny similarities: a label must never be met as new by every neighbour."""
    X = sparse.csr_matrix(np.full((400, 1), 1e-15, np.float32))
    Y = sparse.csr_matrix((np.tile(np.float32([0, 1]), 400), np.tile(np.int32([0, 1]), 400), np.arange(0, 801, 2)))
    found = ranked(Neighbours.fit(X, Y, k=400, power=power), X[:2])
    assert found.ids.tolist() == [1, 1] and np.allclose(found.score, 1.0)


def test_damaged_weights_are_refused():
    rank = Neighbours.fit(
        sparse.csr_matrix(np.ones((2, 1), np.float32)), sparse.csr_matrix(np.eye(2, dtype=np.float32)), k=1, power=3.0
    )
    part = rank.to_part()
    for name, bad in (("y_val", np.zeros(2, np.float32)), ("y_val", np.float32([1, np.nan]))):
        with pytest.raises(ModelError, match="the model is damaged"):
            Neighbours.from_part(type(part)(part.kind, part.config, {**part.arrays, name: bad}))
    with pytest.raises(ModelError, match="setting 'power' is -1.0"):
        Neighbours.from_part(type(part)(part.kind, {**part.config, "power": -1.0}, part.arrays))
