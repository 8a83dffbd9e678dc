import numpy as np
import pytest

from treetop.core.errors import ModelError
from treetop.core.types import Candidates, Join
from treetop.rank.dual import Dual


def made(n=12):
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(n, 5)).astype(np.float32)
    return Dual(weight, rng.normal(size=n).astype(np.float32), widths={"dual": 3, "classifier": 2})


def test_scores_are_the_sum_of_the_heads():
    rank, view = made(), np.random.default_rng(1).normal(size=(4, 5)).astype(np.float32)
    ranking = rank.rank(view, Candidates.all(4, 12), Join(), 12)
    for row in range(4):
        dual, own = rank.part("dual") @ view[row, :3], rank.part("classifier") @ view[row, 3:]
        expected = dual + own + rank.bias
        ids = ranking.ids[ranking.indptr[row] : ranking.indptr[row + 1]]
        assert ids.tolist() == np.argsort(-expected).tolist()
        np.testing.assert_allclose(
            ranking.score[ranking.indptr[row] : ranking.indptr[row + 1]], expected[ids], rtol=1e-4
        )


def test_saved_and_damaged():
    rank = made()
    again = Dual.from_part(rank.to_part())
    assert list(again.widths.items()) == list(rank.widths.items()) and np.array_equal(again.weight, rank.weight)
    part = rank.to_part()
    for widths in ([["dual", 4], ["classifier", 2]], [], [["dual", "3"], ["classifier", 2]], ["dual"]):
        with pytest.raises(ModelError):
            Dual.from_part(type(part)(part.kind, {**part.config, "widths": widths}, part.arrays))
    with pytest.raises(ModelError, match="no head 'other'"):
        rank.part("other")
