"""Soft targets and mixed rows: what the loss sees against plain numpy, on one level and on two."""

import dataclasses
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
import toy
from toy_network import FLAT, PARENT, TREE, L, N, batch, loss_of, network, soft
from treetop.core.errors import ConfigError
from treetop.network.build import Blueprint, Learning
from treetop.network.samplers.mix import BatchMix, LabelMix
from treetop.network.targets import log_odds, node_targets
from treetop.tensors.devices import ALONE
from treetop.train.optim import AdamConfig

ROWS = [0, 3, 7, N + 1, N + 5, N + 30]  # documents and label texts


def task(tree, dataset, *, mix=None, loss="bce", keep=3):
    made, views = network(tree, dataset, keep=keep, mix=mix, learning={"loss": loss})
    return made, views.astype(np.float64)


def pay(z, y, loss):
    if loss == "bce":
        return math.log1p(math.exp(-abs(z))) + max(z, 0) - y * z
    return y * max(0, 1 - z) ** 2 + (1 - y) * max(0, 1 + z) ** 2


def nodes_of(Y):
    return np.stack([Y[:, c == PARENT].max(1) for c in range(4)], 1)


def plain(made, H, Y, nodes, loss, ignored=()):
    """The loss of rows with vectors H, targets Y and, above them, `nodes`."""
    total = 0.0
    first, last = made.heads[0], made.heads[-1]
    if first.one_pass is not None:
        W, b = first.one_pass.weight.double().numpy(), first.one_pass.bias.double().numpy()
        for i in range(len(H)):
            total += sum(pay(W[j] @ H[i] + b[j], Y[i, j], loss) for j in range(L) if (i, j) not in ignored) / len(H)
        return total
    nodes_layer, table = first.vectors.layer, last.vectors.weight.double().numpy()
    V, c = nodes_layer.weight.detach().double().numpy(), nodes_layer.bias.detach().double().numpy()
    for i in range(len(H)):
        z = V @ H[i] + c
        total += sum(pay(z[j], nodes[i, j], loss) for j in range(4)) / len(H)
        kept = sorted(range(4), key=lambda j: (nodes[i, j] <= 0, -z[j]))[: last.plan.keep]
        for j in np.flatnonzero(np.isin(PARENT, kept)):
            if (i, j) not in ignored:
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
    found = loss_of(made, rows).item()
    assert found == pytest.approx(plain(made, X[rows], Y, nodes_of(Y), loss), rel=1e-4)
    assert found != pytest.approx(plain(made, X[rows], np.ceil(Y), np.ceil(nodes_of(Y)), loss), rel=1e-3)


def test_nodes_are_as_positive_as_their_best_label_and_start_there():
    data = soft()
    Y = data.Y.toarray()
    assert np.array_equal(node_targets(data.Y, PARENT, 4).toarray(), nodes_of(Y))
    expected = np.log((nodes_of(Y).sum(0) + 0.5) / (len(data) + 1))
    np.testing.assert_allclose(log_odds(data.Y, PARENT, 4), expected, rtol=1e-5)


def mixed_by(mix, rows, data, X):
    """Vectors, targets and node targets of a mixed batch by hand."""
    drawn = mix.draw(batch(rows))
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
    mix = BatchMix(0.5, 3) if kind == "batch" else label_mix(data)
    made, X = task(tree, data, mix=mix, loss=loss, keep=4)
    H, Y, nodes, partners = mixed_by(mix, ROWS, data, X)
    if kind == "labels":
        assert (partners >= N).all() and all(data.Y[row, p - N] > 0 for row, p in zip(ROWS, partners, strict=True))
    for static in (False, True):
        found = loss_of(made, ROWS, static=static).item()
        assert found == pytest.approx(plain(made, H, Y, nodes, loss), rel=1e-4)


@pytest.mark.parametrize("tree", [FLAT, TREE])
def test_pairs_ignored_for_either_of_two_mixed_rows_count_nothing(tree):
    mix, data = BatchMix(0.5, 3), soft()
    rows = ROWS[:3]
    first = [int(data.Y[row].indices[0]) for row in rows]
    data = dataclasses.replace(data, filter_pairs=np.array([[rows[0], 8], [rows[1], 8], [rows[2], first[2]]]))
    made, X = task(tree, data, mix=mix, keep=4)
    H, Y, nodes, partners = mixed_by(mix, rows, data, X)
    pairs = {(row, column) for row, column in data.filter_pairs.tolist()}
    ignored = {(i, c) for i in range(3) for c in range(L) if {(rows[i], c), (int(partners[i]), c)} & pairs}
    found = loss_of(made, rows).item()
    assert found == pytest.approx(plain(made, H, Y, nodes, "bce", ignored), rel=1e-4)


def test_draws_follow_seed_and_step():
    mix = BatchMix(1.0, 3)
    a, b, c = mix.draw(batch(ROWS)), mix.draw(batch(ROWS)), mix.draw(batch(ROWS, 1))
    assert np.array_equal(a.share, b.share) and not np.array_equal(a.share, c.share)
    assert sorted(a.partner) == list(range(len(ROWS)))
    data = soft()
    alone = LabelMix(0.5, 3, data.Y, np.full(L, -1)).draw(batch(ROWS))
    assert (alone.share == 1).all() and np.array_equal(alone.extra, ROWS)


def test_what_does_not_go_together_is_refused_by_name():
    data, learning = soft(), Learning(encoder=AdamConfig(), heads=AdamConfig())
    dynamic, static = (Blueprint([], TREE, learning, given) for given in (None, np.zeros((len(data), 2), int)))
    with pytest.raises(ConfigError, match="mixup: cannot mix relevance"):
        dynamic.check(dataclasses.replace(data, relevance=data.Y), BatchMix(0.2, 0), None, ALONE)
    with pytest.raises(ConfigError, match="negatives=dynamic"):
        static.check(data, BatchMix(0.2, 0), None, ALONE)


def test_rows_outside_the_sample_leave_no_trace():
    data = soft()
    inside = np.arange(len(data)) >= N
    made, _ = task(FLAT, dataclasses.replace(data, sample=inside))
    alone, _ = task(FLAT, data.take(np.flatnonzero(inside)))
    assert torch.equal(made.heads[0].one_pass.bias, alone.heads[0].one_pass.bias)
    assert np.isfinite(made.ranks()[0].bias).all()  # each label's text is there
    made, _ = task(FLAT, dataclasses.replace(data, sample=~inside))
    assert np.array_equal(np.isfinite(made.ranks()[0].bias), np.bincount(data.Y[:N].indices, minlength=L) > 0)


def test_a_positive_that_is_ignored_counts_nothing():
    data = toy.dataset(n=N)
    column = int(data.Y[4].indices[0])
    made, X = task(FLAT, dataclasses.replace(data, filter_pairs=np.array([[4, column]])))
    Y = data.Y[[4]].toarray()
    assert loss_of(made, [4]).item() == pytest.approx(plain(made, X[[4]], Y, None, "bce", {(0, column)}), rel=1e-4)
