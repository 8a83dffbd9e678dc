import numpy as np
import pytest
from scipy import sparse

from treetop.core.errors import ModelError
from treetop.core.types import Candidates, Join
from treetop.rank import fusion
from treetop.rank.dual import Dual
from treetop.rank.fusion import Fusion, best_cut, grow, seen_pairs

N, WIDTHS = 30, {"dual": 3, "classifier": 2}


def both():
    rng = np.random.default_rng(0)
    return Dual(rng.normal(size=(N, 5)).astype(np.float32), np.zeros(N, np.float32), widths=WIDTHS)


RARE = np.linspace(1, 5, N, dtype=np.float32)
VIEW = np.random.default_rng(1).normal(size=(6, 5)).astype(np.float32)


def slow_probability(tree, x):
    node = 0
    while tree.feature[node] >= 0:
        node = tree.left[node] if x[tree.feature[node]] <= tree.cut[node] else tree.right[node]
    return tree.share[node]


def cases(n=4000):
    rng = np.random.default_rng(2)
    X = rng.random((n, 3)).astype(np.float32)
    return X, (X[:, 0] > 0.6) & (X[:, 2] < 0.5) | (rng.random(n) < 0.05)


def test_a_tree_finds_a_rule_and_walks_it():
    X, y = cases()
    tree = grow(X, y, depth=4)
    made = tree.probability(X)
    assert made.tolist() == [slow_probability(tree, x) for x in X]
    inside = (X[:, 0] > 0.62) & (X[:, 2] < 0.48)
    assert made[inside].mean() > 0.9 and made[X[:, 0] < 0.58].mean() < 0.1
    leaves = np.unique(made)
    for share in leaves:
        assert y[made == share].mean() == pytest.approx(share, abs=1e-5)


def test_the_best_cut_equals_trying_all():
    X, y = cases(200)
    feature, cut = best_cut(X, y)

    def left(f, c):
        low = X[:, f] <= c
        sizes = [(low.sum(), y[low].sum()), ((~low).sum(), y[~low].sum())]
        return sum(h * (n - h) / n for n, h in sizes)

    tried = []
    for f in range(3):
        for c in np.quantile(X[:, f], np.linspace(0, 1, fusion.CUTS + 2)[1:-1]).astype(np.float32):
            if min((X[:, f] <= c).sum(), (X[:, f] > c).sum()) >= fusion.LEAST:
                tried.append(left(f, c))
    assert left(feature, cut) == pytest.approx(min(tried))
    assert grow(X[:10], y[:10], depth=3).feature.tolist() == [-1]  # too few to cut


def test_scores_equal_the_formula(monkeypatch):
    monkeypatch.setattr(fusion, "WIDE", 4)
    X, y = cases()
    rank = Fusion(both(), RARE, beta=0.5, tree=grow(X, y, depth=3))
    ranking = rank.rank(VIEW, Candidates.all(6, N), Join(), 4)
    for row in range(6):
        dual = rank.part("dual") @ VIEW[row, :3]
        own = rank.part("classifier") @ VIEW[row, 3:]
        near = set(np.argsort(-dual)[:4].tolist()) | set(np.argsort(-own)[:4].tolist())
        scores = {
            label: own[label]
            + 0.5 * (dual[label] + slow_probability(rank.tree, [own[label], dual[label], RARE[label]]))
            for label in near
        }
        best = sorted(scores, key=lambda label: (-scores[label], label))[:4]
        part = slice(ranking.indptr[row], ranking.indptr[row + 1])
        assert ranking.ids[part].tolist() == best
        np.testing.assert_allclose(ranking.score[part], [scores[label] for label in best], rtol=1e-4, atol=1e-5)


def test_pairs_to_learn_from():
    Y = sparse.csr_matrix((np.ones(3, np.float32), ([0, 2, 5], [4, 9, 0])), (6, N))
    X, y = seen_pairs(Fusion(both(), RARE, beta=1.0), VIEW, Y)
    assert len(X) == len(y) == 6 * N and y.sum() == 3  # all labels are among the best hundred


def test_saved_and_damaged():
    X, y = cases()
    rank = Fusion(both(), RARE, beta=0.5, tree=grow(X, y, depth=3))
    again = Fusion.from_part(rank.to_part())
    a, b = (r.rank(VIEW, Candidates.all(6, N), Join("sigmoid"), 5) for r in (rank, again))
    assert np.array_equal(a.ids, b.ids) and np.array_equal(a.score, b.score)
    part = rank.to_part()
    for name, value in (("tree_left", 0 * rank.tree.left), ("tree_feature", rank.tree.feature + 5)):
        with pytest.raises(ModelError, match="cycle"):
            Fusion.from_part(type(part)(part.kind, part.config, {**part.arrays, name: value}))
