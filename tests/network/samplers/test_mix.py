"""Soft targets, mixed rows and priced vectors: what the loss sees against plain numpy, on one level and on two."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from treetop.assemble.inputs import Cached
from treetop.assemble.neural_hooks import NO_HOOKS, Hooks
from treetop.assemble.neural_start import log_odds
from treetop.assemble.neural_targets import node_targets
from treetop.assemble.neural_tree import LevelPlan, NeuralTree, TreeConfig
from treetop.train.hooks import BatchMix, GramPenalty, LabelMix

import toy
from treetop.assemble.label_rows import with_rows
from treetop.core.dataset import LABEL_TEXT, Dataset
from treetop.core.errors import ConfigError
from treetop.core.types import LabelTree
from treetop.kernels import reference
from treetop.labels.text import label_words
from treetop.tensors.devices import World
from treetop.train.batches import Batch, Plan
from treetop.train.loop import train
from treetop.train.optim import AdamConfig
from treetop.train.task import TrainConfig

CPU = torch.device("cpu")
N, WIDTH, L = 30, 6, toy.N_LABELS
PARENT = np.array([0, 1, 2, 2, 1, 0, 3, 3, 3, 1] * 4, np.int32)
TREE, FLAT = LabelTree((np.zeros(4, np.int32), PARENT)), LabelTree((np.zeros(L, np.int32),))
LEARN = AdamConfig(lr=0.05, weight_decay=0.0)
ROWS = [0, 3, 7, N + 1, N + 5, N + 30]  # documents and label texts


def soft(**changes):
    """The toy data with label texts as rows whose targets are shares."""
    data = toy.dataset(n=N)
    shares = reference.label_shares(data.Y.toarray(), 0.1)
    assert ((shares > 0) & (shares < 1)).any()
    data = with_rows(data, Dataset(label_words(data.labels), sparse.csr_matrix(shares), data.labels), LABEL_TEXT)
    return dataclasses.replace(data, **changes)


def task(tree, dataset, *, hooks=NO_HOOKS, loss="bce", keep=3):
    views = np.random.default_rng(0).normal(size=(len(dataset), WIDTH)).astype(np.float32)
    inputs = Cached({"v": views}, np.ones(len(dataset), np.int64), CPU)
    plans = [LevelPlan("v", WIDTH)] + [LevelPlan("v", WIDTH, keep, weight=0.5)] * (len(tree.sizes) > 1)
    made = NeuralTree(inputs, dataset, tree, plans, TreeConfig(LEARN, LEARN, loss=loss), hooks=hooks)
    return made, views.astype(np.float64)


def batch(rows, step=0):
    return Batch(np.array(rows), np.array(rows), len(rows), step)


def pay(z, y, loss):
    if loss == "bce":
        return math.log1p(math.exp(-abs(z))) + max(z, 0) - y * z
    return y * max(0, 1 - z) ** 2 + (1 - y) * max(0, 1 + z) ** 2


def nodes_of(Y):
    return np.stack([Y[:, c == PARENT].max(1) for c in range(4)], 1)


def plain(made, H, Y, nodes, loss, barred=()):
    """The loss of rows with vectors H, targets Y and, above them, `nodes`."""
    total = 0.0
    if made.full is not None:
        W, b = made.full.weight.double().numpy(), made.full.bias.double().numpy()
        for i in range(len(H)):
            total += sum(pay(W[j] @ H[i] + b[j], Y[i, j], loss) for j in range(L) if (i, j) not in barred) / len(H)
        return total
    head, table = made.branches[0].nodes, made.rows[1].weight.double().numpy()
    V, c = head.weight.detach().double().numpy(), head.bias.detach().double().numpy()
    for i in range(len(H)):
        z = V @ H[i] + c
        total += sum(pay(z[j], nodes[i, j], loss) for j in range(4)) / len(H)
        kept = sorted(range(4), key=lambda j: (nodes[i, j] <= 0, -z[j]))[: made.plans[1].keep]
        for j in np.flatnonzero(np.isin(PARENT, kept)):
            if (i, j) not in barred:
                total += 0.5 * pay(table[j, :-1] @ H[i] + table[j, -1], Y[i, j], loss) / len(H)
    return total


@pytest.mark.parametrize("loss", ["bce", "squared_hinge"])
@pytest.mark.parametrize("tree", [FLAT, TREE])
def test_soft_targets_reach_the_loss_as_they_are(tree, loss):
    data = soft()
    made, X = task(tree, data, loss=loss)
    few = np.flatnonzero((nodes_of(data.Y.toarray()) > 0).sum(1) <= 3)  # as many clusters as are kept
    rows = [*few[few < N][:4], *few[few >= N][-8:]]
    Y = data.Y[rows].toarray().astype(np.float64)
    assert ((Y > 0) & (Y < 1)).any()
    found = made.loss(made.load(batch(rows), False)).item()
    assert found == pytest.approx(plain(made, X[rows], Y, nodes_of(Y), loss), rel=1e-4)
    assert found != pytest.approx(plain(made, X[rows], np.ceil(Y), np.ceil(nodes_of(Y)), loss), rel=1e-3)


def test_nodes_are_as_positive_as_their_best_label_and_begin_there():
    data = soft()
    Y = data.Y.toarray()
    assert np.array_equal(node_targets(data.Y, PARENT, 4).toarray(), nodes_of(Y))
    expected = np.log((nodes_of(Y).sum(0) + 0.5) / (len(data) + 1))
    np.testing.assert_allclose(log_odds(data.Y, PARENT, 4), expected, rtol=1e-5)


def mixed_by(hook, rows, data, X):
    """Vectors, targets and node targets of a mixed batch by hand."""
    drawn = hook.draw(batch(rows))
    partners = np.concatenate([rows, drawn.extra])[drawn.partner]
    s = drawn.share.astype(np.float64)[:, None]
    own, other = (data.Y[r].toarray().astype(np.float64) for r in (rows, partners))
    nodes = s * nodes_of(own) + (1 - s) * nodes_of(other)
    return s * X[rows] + (1 - s) * X[partners], s * own + (1 - s) * other, nodes, partners


def label_mix(data):
    return LabelMix(0.5, 3, data.Y, N + np.arange(L))


@pytest.mark.parametrize("kind", ["batch", "labels"])
@pytest.mark.parametrize("loss", ["bce", "squared_hinge"])
@pytest.mark.parametrize("tree", [FLAT, TREE])
def test_mixed_rows_pay_for_mixed_targets(tree, loss, kind):
    data = soft()
    hook = BatchMix(0.5, 3) if kind == "batch" else label_mix(data)
    made, X = task(tree, data, hooks=Hooks(mix=hook), loss=loss, keep=4)
    H, Y, nodes, partners = mixed_by(hook, ROWS, data, X)
    if kind == "labels":
        assert (partners >= N).all() and all(data.Y[row, p - N] > 0 for row, p in zip(ROWS, partners, strict=True))
    for static in (False, True):
        found = made.loss(made.load(batch(ROWS), static)).item()
        assert found == pytest.approx(plain(made, H, Y, nodes, loss), rel=1e-4)


@pytest.mark.parametrize("tree", [FLAT, TREE])
def test_pairs_barred_for_either_of_two_mixed_rows_count_nothing(tree):
    hook, data = BatchMix(0.5, 3), soft()
    rows = ROWS[:3]
    first = [int(data.Y[row].indices[0]) for row in rows]
    data = dataclasses.replace(data, filter_pairs=np.array([[rows[0], 8], [rows[1], 8], [rows[2], first[2]]]))
    made, X = task(tree, data, hooks=Hooks(mix=hook), keep=4)
    H, Y, nodes, partners = mixed_by(hook, rows, data, X)
    pairs = {(row, column) for row, column in data.filter_pairs.tolist()}
    barred = {(i, c) for i in range(3) for c in range(L) if {(rows[i], c), (int(partners[i]), c)} & pairs}
    found = made.loss(made.load(batch(rows), False)).item()
    assert found == pytest.approx(plain(made, H, Y, nodes, "bce", barred), rel=1e-4)


def test_draws_follow_seed_and_step():
    hook = BatchMix(1.0, 3)
    a, b, c = hook.draw(batch(ROWS)), hook.draw(batch(ROWS)), hook.draw(batch(ROWS, 1))
    assert np.array_equal(a.share, b.share) and not np.array_equal(a.share, c.share)
    assert sorted(a.partner) == list(range(len(ROWS)))
    data = soft()
    alone = LabelMix(0.5, 3, data.Y, np.full(L, -1)).draw(batch(ROWS))
    assert (alone.share == 1).all() and np.array_equal(alone.extra, ROWS)


def gram(data, **changes):
    S = sparse.csr_matrix(reference.label_shares(data.Y[:N].toarray(), 0.0, symmetric=True))
    return GramPenalty(**{"S": S, "Y": data.Y, "weight": 2.0, "labels": 12, "unit": False, "seed": 0, **changes})


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("tree", [FLAT, TREE])
def test_penalty_is_the_equation_and_reaches_the_vectors(tree, unit):
    data = soft()
    hook = gram(data, unit=unit)
    ids, known = hook.draw(batch(ROWS))
    assert len(ids) == len(set(ids.tolist())) == 12 and set(data.Y[ROWS].indices[:1]) <= set(ids.tolist()) | {-1}
    np.testing.assert_array_equal(known, hook.S.toarray()[np.ix_(ids, ids)])
    priced, _ = task(tree, data, hooks=Hooks(penalty=hook))
    free, _ = task(tree, data)
    grads, losses = [], []
    for made in (priced, free):
        torch.manual_seed(0)
        table = made.full or made.rows[1]
        fill = torch.randn(L, WIDTH) * 0.3
        table.fill(fill)
        table.prepare(1.0, fuse=False, value=True)
        loss = made.loss(made.load(batch(ROWS), False))
        loss.backward() if loss.requires_grad else None
        losses.append(loss.item())
        if made.full is not None:
            grads.append(table.grads[0][:L].clone())
            continue
        dense = torch.zeros(L, WIDTH + 1)
        for h, at, slope in table.pending:
            for k in range(at.shape[1]):
                inside = at[:, k] >= 0
                dense.index_add_(0, at[inside, k], h[inside] * slope[inside, k, None])
        grads.append(dense[:, :WIDTH])
    W = fill.double().requires_grad_()
    w = W[torch.from_numpy(ids)]
    w = torch.nn.functional.normalize(w, dim=1) if unit else w
    price = 0.0
    for i in range(12):
        for j in range(12):
            price = price + 2.0 * (w[i] @ w[j] - float(known[i, j])) ** 2 / 144
    price.backward()
    assert losses[0] - losses[1] == pytest.approx(price.item(), rel=1e-3)
    np.testing.assert_allclose((grads[0] - grads[1]).detach().numpy(), W.grad.numpy(), atol=1e-4)


@pytest.mark.parametrize("tree", [FLAT, TREE])
@pytest.mark.parametrize("accumulate", [1, 3])
def test_priced_vectors_come_nearer_to_the_graph(tree, accumulate):
    data = soft()

    def distance(weight):
        hook = gram(data, weight=weight, labels=40)
        made, _ = task(tree, data, hooks=Hooks(penalty=hook), keep=4)
        train(made, Plan(np.arange(len(data)), 14, 0), TrainConfig(epochs=12, batch=14, accumulate=accumulate))
        V = (made.full or made.rows[1]).weight[:, :WIDTH].numpy()
        return float(((V @ V.T - hook.S.toarray()) ** 2).mean())

    assert distance(50.0) < 0.7 * distance(0.0)


def test_what_does_not_go_together_is_refused_by_name():
    data = soft()
    weighed = dataclasses.replace(data, relevance=data.Y)
    with pytest.raises(ConfigError, match="mixup: cannot mix relevance"):
        Hooks(mix=BatchMix(0.2, 0)).check(weighed, World(), False)
    with pytest.raises(ConfigError, match="negatives=dynamic"):
        Hooks(mix=BatchMix(0.2, 0)).check(data, World(), True)
    with pytest.raises(ConfigError, match="glas: works in one process only, not in 2"):
        Hooks(penalty=gram(data)).check(data, World(0, 2), False)


def test_rows_outside_the_sample_leave_no_trace():
    data = soft()
    inside = np.arange(len(data)) >= N
    made, _ = task(FLAT, dataclasses.replace(data, sample=inside))
    alone, _ = task(FLAT, data.take(np.flatnonzero(inside)))
    assert torch.equal(made.full.bias, alone.full.bias)
    assert np.isfinite(made.heads()[0].bias).all()  # each label's text is there
    made, _ = task(FLAT, dataclasses.replace(data, sample=~inside))
    assert np.array_equal(np.isfinite(made.heads()[0].bias), np.bincount(data.Y[:N].indices, minlength=L) > 0)


def test_a_positive_that_is_barred_counts_nothing():
    data = toy.dataset(n=N)
    column = int(data.Y[4].indices[0])
    made, X = task(FLAT, dataclasses.replace(data, filter_pairs=np.array([[4, column]])))
    Y = data.Y[[4]].toarray()
    found = made.loss(made.load(batch([4]), False)).item()
    assert found == pytest.approx(plain(made, X[[4]], Y, None, "bce", {(0, column)}), rel=1e-4)
