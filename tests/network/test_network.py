"""Jointly trained heads against a slow, plain version: loss, gradients, shortlists, score combination."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
import toy
from toy_network import FLAT, PARENT, TREE, N, batch, loss_of, network
from treetop.core.types import Join, Level
from treetop.network.inputs import Cached
from treetop.predict.beam import descend
from treetop.shortlist.descend import Descend
from treetop.shortlist.everything import Everything
from treetop.train.batches import Plan
from treetop.train.loop import train
from treetop.train.task import TrainConfig


def data(**changes):
    return dataclasses.replace(toy.dataset(n=N), **changes)


def task(tree, dataset=None, *, keep=2, dimension=0, held_out=None, **learning):
    last = {"dimension": dimension} if len(tree.sizes) > 1 else {}
    made, views = network(tree, dataset or data(), keep=keep, last=last, held_out=held_out, learning=learning)
    return made, torch.from_numpy(views)


def sigmoid(z):
    return 1 / (1 + math.exp(-z))


@pytest.mark.parametrize("dimension", [0, 3])
@pytest.mark.parametrize("reduce", ["mean", "sum"])
def test_tree_loss_and_shortlist_equal_the_plain_way(dimension, reduce):
    made, X = task(TREE, dimension=dimension, reduce=reduce)
    rows = list(range(12))
    loss = loss_of(made, rows)
    Y = data().Y.toarray()
    clusters, labels_head = made.heads
    nodes, table, layer = clusters.vectors.layer, labels_head.vectors.weight, labels_head.projection.layer
    expected, shapes = 0.0, []
    torch.set_grad_enabled(False)
    for row in rows:
        z = (nodes.weight @ X[row] + nodes.bias).tolist()
        true = [any(Y[row][c == PARENT]) for c in range(4)]
        terms = [-math.log(sigmoid(a)) if t else -math.log(1 - sigmoid(a)) for a, t in zip(z, true, strict=True)]
        expected += (sum(terms) / 4 if reduce == "mean" else sum(terms)) / len(rows)
        # Teacher forcing: true clusters first, then the best of the others.
        kept = sorted(range(4), key=lambda c: (not true[c], -z[c]))[:2]
        labels = [label for c in kept for label in np.flatnonzero(c == PARENT)]
        h = X[row] if layer is None else layer.weight @ X[row] + layer.bias
        scores = [float(table[label, :-1] @ h + table[label, -1]) for label in labels]
        terms = [
            -math.log(sigmoid(a)) if Y[row][label] else -math.log(1 - sigmoid(a))
            for a, label in zip(scores, labels, strict=True)
        ]
        expected += 0.5 * (sum(terms) / len(labels) if reduce == "mean" else sum(terms)) / len(rows)
        shapes.append(len(labels))
    torch.set_grad_enabled(True)
    assert len(set(shapes)) > 1  # padding was in play
    assert loss.item() == pytest.approx(expected, rel=1e-4)


def test_rounded_shapes_give_the_same_loss_and_gradients():
    for tree in (TREE, FLAT):
        results = []
        for static in (False, True):
            made, _ = task(tree)
            for table in made.tables.values():
                table.prepare(1.0, fuse=True, value=True)
            loaded = made.load(batch([1, 2, 3]), static)
            assert (loaded.key is not None) == static
            loss = made.loss(loaded)
            if loss.requires_grad:
                loss.backward()
            for table in made.tables.values():
                table.apply()
            results.append(
                [loss.item(), *(t.clone() for table in made.tables.values() for t in table.weights().values())]
            )
        for a, b in zip(*results, strict=True):
            assert a == b if isinstance(a, float) else torch.equal(a, b)


def test_without_teacher_forcing_only_the_scores_choose():
    made, _ = task(TREE, forced=False, keep=1)
    forced, _ = task(TREE, keep=1)
    assert loss_of(made, range(12)).item() != pytest.approx(loss_of(forced, range(12)).item())


def test_best_multiplies_along_the_path_and_agrees_with_the_ranks():
    made, X = task(TREE, keep=3)
    train(made, Plan(np.arange(N), 8, 0), TrainConfig(epochs=5, batch_size=8))
    top = made.top_labels(np.arange(N), 5)
    first, second = made.ranks()
    levels = [
        Level("v", Everything(4), first, Join("sigmoid"), beam=3),
        Level("v", Descend.of(TREE, 1), second, Join("sigmoid", "path")),
    ]
    ranking = descend(levels, {"v": X.numpy()}, 5)
    z = first.weight @ X[0].numpy() + first.bias
    kept = np.argsort(-z)[:3]
    own = second.weight @ X[0].numpy() + second.bias
    scores = {label: sigmoid(own[label]) * sigmoid(z[PARENT[label]]) for label in range(40) if PARENT[label] in kept}
    scores = {label: score for label, score in scores.items() if np.isfinite(second.bias[label])}
    assert ranking.ids[:5].tolist() == sorted(scores, key=lambda label: -scores[label])[:5]
    seen = np.isfinite(second.bias)
    agree = [ranking.padded(5)[row].tolist() == top[row].tolist() for row in range(N) if seen[top[row]].all()]
    assert np.mean(agree) > 0.9 and len(agree) > N // 2


def test_unseen_labels_are_barred():
    made, _ = task(FLAT)
    (rank,) = made.ranks()
    assert np.array_equal(np.isinf(rank.bias), np.bincount(data().Y.indices, minlength=40) == 0)


@pytest.mark.parametrize("tree", [FLAT, TREE])
def test_ignored_pairs_are_neither_positives_nor_negatives(tree):
    pairs = np.array([[4, 7], [9, 0]])
    plain, _ = task(tree, keep=4)
    ignoring, _ = task(tree, data(filter_pairs=pairs), keep=4)
    other = [row for row in range(N) if row not in (4, 9)][:3]
    assert loss_of(ignoring, other).item() == pytest.approx(loss_of(plain, other).item(), rel=1e-6)
    a, b = (loss_of(t, [4]).item() for t in (plain, ignoring))
    assert b < a  # one negative less


@pytest.mark.parametrize("tree", [FLAT, TREE])
def test_relevance_weighs_positives(tree):
    Y = data().Y
    double = sparse.csr_matrix((np.full(Y.nnz, 2.0, np.float32), Y.indices, Y.indptr), Y.shape)
    plain, _ = task(tree, keep=4)
    weighted, _ = task(tree, data(relevance=double), keep=4)
    a, b = (loss_of(t, [4]).item() for t in (plain, weighted))
    assert b > a
    same = sparse.csr_matrix((np.ones(Y.nnz, np.float32), Y.indices, Y.indptr), Y.shape)
    equal, _ = task(tree, data(relevance=same), keep=4)
    assert loss_of(equal, [4]).item() == pytest.approx(a, rel=1e-6)


@pytest.mark.parametrize("tree", [FLAT, TREE])
def test_training_learns_and_validation_sees_it(tree):
    made, _ = task(tree, keep=4, held_out=np.arange(N))
    before = made.validate().score
    train(made, Plan(np.arange(N), 8, 0), TrainConfig(epochs=40, batch_size=8))
    assert made.validate().score > before + 10


def test_at_first_only_the_first_head_teaches_what_views_share():
    class Watched(Cached):
        def views(self, message, detached=()):
            seen.append(set(detached))
            return super().views(message, detached)

    made, X = task(TREE)
    seen, made.inputs = [], Watched({"v": X.numpy(), "w": X.numpy()}, np.ones(N, np.int64), made.device)
    made.heads[1].plan = dataclasses.replace(made.heads[1].plan, view="w")
    made.detach_steps = 3
    loads = [made.load(batch(range(4), step), True) for step in (2, 3)]
    for loaded in loads:
        made.loss(loaded)
    assert seen == [{"w"}, set()] and loads[0].key != loads[1].key
