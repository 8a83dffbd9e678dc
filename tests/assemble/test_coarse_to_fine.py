"""Candidates, count weights and the linear start of each level against slow, plain versions."""

import dataclasses

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import toy
from toy_network import LEARN, batch, cached, loss_of
from treetop.assemble.linear.tree import LevelTask, Task, level_relevance, problems_of
from treetop.assemble.staged.coarse_to_fine import FineConfig, chosen_levels
from treetop.assemble.staged.level_start import bootstrap, candidate_parents, dense_rows, padded
from treetop.core.errors import ConfigError
from treetop.core.types import LabelTree, Ranking
from treetop.features.concatenate import unit
from treetop.kernels.linear.descent import Settings
from treetop.network.build import Blueprint, Learning
from treetop.network.head import HeadPlan
from treetop.network.init import Start

N, WIDTH = 50, 6
LABELS = np.random.default_rng(1).permutation(np.arange(40) % 8).astype(np.int32)  # 40 labels in 8 clusters
TREE = LabelTree((np.zeros(2, np.int32), np.arange(8, dtype=np.int32) // 4, LABELS))
COST = 100.0
X = np.random.default_rng(0).normal(size=(N, WIDTH)).astype(np.float32)


def counts():
    """Targets of every level, with how many labels of a text lie below a node."""
    Y = toy.dataset(n=N).Y
    made = level_relevance(Task(sparse.csr_matrix(X), Y), TREE, "induce")
    for R in made:
        R.sort_indices()
    return made


def found(seed=2, keep=3, n=8):
    """Some nodes for every row, best first."""
    rng = np.random.default_rng(seed)
    ids = np.concatenate([rng.permutation(n)[:keep] for _ in range(N)]).astype(np.int32)
    score = np.tile(np.linspace(1, 0.5, keep), N).astype(np.float32)
    return Ranking(np.arange(N + 1) * keep, ids, score, score)


def slow_candidates(row, ranking, counts_above):
    """Algorithm of the paper for one text: true parents, then those of the beam; all their children."""
    parents = set(np.flatnonzero(counts_above[row].toarray()[0]))
    if ranking is not None:
        parents |= set(ranking.ids[ranking.indptr[row] : ranking.indptr[row + 1]].tolist())
    return parents, {label for label in range(40) if LABELS[label] in parents}


@pytest.mark.parametrize("man", [False, True])
def test_candidates_equal_the_slow_way(man):
    above, ranking = counts()[1], found() if man else None
    parents = candidate_parents(above, ranking)
    table = padded(parents)
    assert table.shape[1] == max(len(slow_candidates(row, ranking, above)[0]) for row in range(N))
    for row in range(N):
        wanted, _ = slow_candidates(row, ranking, above)
        assert set(parents[row].indices.tolist()) == wanted
        assert set(table[row][table[row] >= 0].tolist()) == wanted
        assert (np.diff(np.sign(table[row] + 0.5)) <= 0).all()  # -1 stands behind


def test_a_text_without_labels_has_no_candidates():
    nothing = sparse.csr_matrix((3, 8), dtype=np.float32)
    assert padded(candidate_parents(nothing, None)).tolist() == [[-1]] * 3


def task(dataset, tree, *, given=None, start=None):
    """The last level of a tree alone, its candidates given where there are any."""
    keep = 0 if given is None else given.shape[1]
    blueprint = Blueprint(
        [HeadPlan(view="v", view_width=WIDTH, n=tree.sizes[-1], keep=keep)], tree,
        Learning(encoder=LEARN, heads=LEARN, loss="squared_hinge", forced=False), given,
        start={} if start is None else {"v": start},
    )  # fmt: skip
    return blueprint.network(dataset, cached(X), seed=0)


def level_data(R, weighs):
    Y = sparse.csr_matrix((np.ones(R.nnz, np.float32), R.indices, R.indptr), R.shape)
    labels = toy.dataset(n=N).labels
    labels = labels if R.shape[1] == 40 else type(labels).of([str(i) for i in range(R.shape[1])])
    return dataclasses.replace(toy.dataset(n=N), Y=Y, labels=labels, relevance=R if weighs else None)


def hinge(z, positive, weight):
    return weight * max(0.0, 1.0 - z) ** 2 if positive else max(0.0, 1.0 + z) ** 2


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("weighs", [False, True])
def test_loss_over_given_parents_weighs_counts(weighs, static):
    """The middle level: clusters below the given parents, positives weighed by the labels below."""
    tree = LabelTree((np.zeros(2, np.int32), TREE.parents[1]))
    R = counts()[1]
    assert (R.data > 1).any()
    ranking = found(keep=1, n=2)
    parents = candidate_parents(counts()[0], ranking)
    made = task(level_data(R, weighs), tree, given=padded(parents))
    table, rows = made.heads[0].vectors.weight.numpy(), np.arange(5, 25)
    loss = loss_of(made, rows, static=static)
    expected = 0.0
    for row in rows:
        for node in range(8):
            if TREE.parents[1][node] in parents[row].indices:
                z = float(table[node, :-1] @ X[row] + table[node, -1])
                count = R[row, node]
                expected += hinge(z, count > 0, count if weighs else 1.0) / len(rows)
    assert loss.item() == pytest.approx(expected, rel=1e-4)
    # Every text has at most the parents of its row: no fill-up where a row has fewer.
    assert (made.heads[0].candidates.parents[rows] < 0).any()


@pytest.mark.parametrize("weighs", [False, True])
def test_the_first_level_weighs_counts_too(weighs):
    R = counts()[0]
    made = task(level_data(R, weighs), LabelTree((np.zeros(2, np.int32),)))
    full = made.heads[0].one_pass
    full.init(torch.randn(2, WIDTH), torch.randn(2))
    W, b, rows = full.weight.numpy(), full.bias.numpy(), np.arange(10, 30)
    full.prepare(0.0, fuse=True, value=True)
    loss = loss_of(made, rows)
    expected = sum(
        hinge(float(W[node] @ X[row] + b[node]), R[row, node] > 0, R[row, node] if weighs else 1.0) / len(rows)
        for row in rows
        for node in range(2)
    )
    assert loss.item() == pytest.approx(expected, rel=1e-4)


def test_rows_are_cut_to_what_they_need():
    given = np.full((N, 20), -1)
    given[:, 0] = 1
    given[7, :20] = np.arange(20) % 8
    made = task(level_data(counts()[2], False), LabelTree((np.zeros(8, np.int32), LABELS)), given=given)
    for rows, width in (([0, 1], 8), ([0, 7], 20)):
        assert made.load(batch(rows), False).parts["labels"].facts == width


@pytest.mark.parametrize("weighs", [False, True])
def test_bootstrap_solves_the_restricted_problems(weighs):
    svm = pytest.importorskip("sklearn.svm")
    R = counts()[2]
    R.data = np.random.default_rng(4).integers(1, 4, R.nnz).astype(np.float32)
    parents = candidate_parents(counts()[1], found())
    H, inside = unit(X), parents.tocsc()
    level = LevelTask(dense_rows(H), H.shape, problems_of(R, R if weighs else None), (inside, inside), 0)
    solver = Settings(cost_positive=COST, cost_negative=COST, threshold=0.0, eps=1e-3, max_passes=100_000)
    vectors, biases = bootstrap(level, TREE, 2, solver)
    compared = 0
    for label in range(40):
        rows = np.flatnonzero(parents[:, [LABELS[label]]].toarray().ravel())
        y = np.where(R[rows][:, [label]].toarray().ravel() > 0, 1.0, -1.0)
        if len(set(y)) < 2:
            continue
        weight = np.where(y > 0, R[rows][:, [label]].toarray().ravel(), 1.0) if weighs else np.ones(len(rows))

        def objective(w, b, rows=rows, y=y, weight=weight):
            margin = y * (H[rows] @ w + b)
            return 0.5 * (w @ w + b * b) + COST * (weight * np.maximum(0, 1 - margin) ** 2).sum()

        best = svm.LinearSVC(C=COST, loss="squared_hinge", dual=False, tol=1e-8, max_iter=100_000)
        best.fit(H[rows], y, sample_weight=weight)
        theirs = objective(best.coef_[0], best.intercept_[0])
        assert objective(vectors[label].astype(np.float64), float(biases[label])) <= theirs * 1.01 + 1e-3
        compared += 1
    assert compared > 20


def test_a_level_begins_at_given_vectors_and_biases():
    rng = np.random.default_rng(3)
    V, b = rng.normal(size=(40, WIDTH)).astype(np.float32), rng.normal(size=40).astype(np.float32)
    start = Start(V, np.zeros(WIDTH, np.float32), b)
    given = padded(candidate_parents(counts()[1], None))
    made = task(level_data(counts()[2], False), LabelTree((np.zeros(8, np.int32), LABELS)), given=given, start=start)
    rank = made.ranks()[-1]
    seen = np.isfinite(rank.bias)
    assert np.array_equal(rank.weight, V) and np.array_equal(rank.bias[seen], b[seen])
    flat = task(level_data(counts()[2], False), LabelTree((np.zeros(40, np.int32),)), start=start)
    assert np.array_equal(flat.ranks()[0].weight, V)


def test_levels_and_their_shares():
    config = FineConfig()
    assert [t for t, _ in chosen_levels(TREE.sizes, config)] == [0, 1, 2]
    assert [share for _, share in chosen_levels(TREE.sizes, config)] == [0.25, 0.25, 0.5]
    two = dataclasses.replace(config, max_clusters=8, epoch_split=(1.0, 3.0))
    assert chosen_levels(TREE.sizes, two) == [(0, 0.25), (1, 0.75)]
    assert chosen_levels(TREE.sizes, dataclasses.replace(config, max_clusters=8, levels="last")) == [(1, 1.0)]
    with pytest.raises(ConfigError, match=r"epoch_split: \[1.0, 3.0\], but 3 levels of \[2, 8, 40\] nodes"):
        chosen_levels(TREE.sizes, dataclasses.replace(config, epoch_split=(1.0, 3.0)))
    with pytest.raises(ConfigError, match="max_clusters: 1, but the coarsest level has 2 nodes"):
        chosen_levels(TREE.sizes, dataclasses.replace(config, max_clusters=1))
