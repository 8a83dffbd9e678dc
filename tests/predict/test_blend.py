import numpy as np
import pytest

from treetop.core.errors import ConfigError
from treetop.core.types import Join, Ranking
from treetop.predict.blend import blended, check_blend


def ranking(rows):
    ends = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    cells = [cell for row in rows for cell in row]
    return Ranking.sorted(ends, np.array([i for i, _ in cells], np.int32), np.array([s for _, s in cells], np.float32))


PARTS = [ranking([[(1, 0.9), (2, 0.5)], []]), ranking([[(2, 0.8)], [(0, 0.3)]])]


def cells(found):
    return [
        list(zip(found.ids[a:b].tolist(), (round(x, 4) for x in found.score[a:b].tolist()), strict=True))
        for a, b in zip(found.indptr[:-1], found.indptr[1:], strict=True)
    ]


def test_absent_counts_zero():
    assert cells(blended(PARTS, "average", 5)) == [[(2, 0.65), (1, 0.45)], [(0, 0.15)]]
    assert cells(blended(PARTS, "average", 1)) == [[(2, 0.65)], [(0, 0.15)]]
    assert cells(blended(PARTS, "rank_average", 5)) == [[(1, 1.0), (2, 1.0)], [(0, 0.5)]]
    first = 1 / (1 + np.exp(-0.4))
    assert cells(blended(PARTS, "softmax_average", 5)) == [
        [(2, round((1 - first + 1) / 2, 4)), (1, round(first / 2, 4))],
        [(0, 0.5)],
    ]
    assert cells(blended(PARTS[:1], "average", 1)) == [[(1, 0.9)], []]


def test_averaging_raw_margins_is_refused_by_name():
    with pytest.raises(ConfigError, match="'average' needs scores from 0 to 1, but a member's last level gives 'noop'"):
        check_blend("average", [Join("sigmoid"), Join()])
    with pytest.raises(ConfigError, match="gives 'log_hinge3'"):
        check_blend("average", [Join("log_hinge3")])
    check_blend("rank_average", [Join()])
