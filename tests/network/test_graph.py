"""GraphSAGE's views and head against plain loops: who is a neighbour, the means, the layer, both readings alike."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from torch.nn import functional as F

import toy
from toy_network import CPU, LEARN, cached
from treetop.assemble.dual.pairs import known_of
from treetop.network.graph import GraphHead, with_neighbours
from treetop.network.losses.settings import LossConfig
from treetop.network.pool import PoolNetwork
from treetop.network.pool_heads import DualConfig
from treetop.network.samplers.clustered import Mining
from treetop.network.samplers.neighbours import Neighbours
from treetop.network.samplers.pools import PoolConfig, Pools

N, WIDTH, LABELS = 30, 6, toy.N_LABELS
DATA = toy.dataset(n=N)
VIEWS = np.random.default_rng(0).normal(size=(N + LABELS, WIDTH)).astype(np.float32)
DUAL = DualConfig(scale=4.0, loss=LossConfig(kind="infonce", positive_set="pool"))


def documents_of(label):
    return set(np.flatnonzero(DATA.Y.toarray()[:, label]).tolist())


def network(fan_out):
    graph, pool = Neighbours(known_of(DATA), fan_out, 0), PoolConfig(size=99, positives=1, fill=False, hard_negatives=0)
    head = GraphHead(DUAL, WIDTH)
    torch.manual_seed(1)
    head.projection.layer.weight.data = torch.randn(WIDTH, 2 * WIDTH)
    task = PoolNetwork(
        with_neighbours(cached(VIEWS), graph, N), DATA, known_of(DATA), [head], Mining(N, N, pool), view="v",
        encoder=LEARN, learn=LEARN,
    )  # fmt: skip
    return task, head, Pools(known_of(DATA), pool, 0)


def test_neighbours_are_documents_of_the_label_and_not_of_the_batch():
    labels, barred = np.arange(LABELS), np.array([0, 3, 7])
    few = Neighbours(known_of(DATA), 2, 0)
    owner, found = few.draw(labels, barred, labels)
    assert (np.diff(owner) >= 0).all() and not set(found.tolist()) & set(barred.tolist())
    for label in labels:
        mine = found[owner == label].tolist()
        assert len(mine) <= 2 and set(mine) <= documents_of(label) - set(barred.tolist())
    again = few.draw(labels, barred, labels)
    assert np.array_equal(again[1], found)
    assert any(not np.array_equal(few.draw(labels, barred, labels + i)[1], found) for i in (1, 2, 3))
    every = Neighbours(known_of(DATA), 1000, 0).draw(labels, barred, labels)
    for label in labels:
        assert set(every[1][every[0] == label].tolist()) == documents_of(label) - set(barred.tolist())


def slow_vectors(rows, head):
    """Own vector and mean of all neighbours, one node at a time."""
    made = []
    for row in rows:
        near = sorted(documents_of(row - N) - set(rows.tolist())) if row >= N else []
        mean = VIEWS[near].mean(0) if near else np.zeros(WIDTH, np.float32)
        both = torch.from_numpy(np.concatenate([VIEWS[row], mean]))
        made.append(F.normalize(torch.tanh(head.projection.layer(both)), dim=0))
    return torch.stack(made)


def test_a_batch_is_the_plain_loss_with_its_gradient():
    task, head, pools = network(1000)
    batch = pools.batch(np.arange(9), np.full((N, 0), -1, np.int32), 0, 0, 1)
    vectors = slow_vectors(np.concatenate([batch.rows, N + batch.pool]), head)
    target = torch.from_numpy(DATA.Y[batch.rows][:, batch.pool].toarray())
    logits = 4.0 * vectors[:9] @ vectors[9:].T
    void = torch.zeros(target.numel(), dtype=torch.bool)
    void[batch.ignored] = True  # labels with equal texts
    own = torch.logsumexp(logits.masked_fill(target <= 0, float("-inf")), 1)
    others = torch.logsumexp(logits.masked_fill((target > 0) | void.view_as(target), float("-inf")), 1)
    slow = F.softplus(others - own).mean()
    slow.backward()
    weight = head.projection.layer.weight
    wanted, weight.grad = weight.grad.clone(), None
    loss = task.loss(task.load(batch, static=False))
    loss.backward()
    assert loss.item() == pytest.approx(slow.item(), rel=1e-5)
    assert torch.allclose(weight.grad, wanted, atol=1e-5)


def test_both_readings_of_a_part_have_the_same_neighbours():
    """Gradient caching reads each part twice: with other neighbours the gradients would be of something else."""
    task, _, pools = network(1)
    batch = pools.batch(np.arange(9), np.full((N, 0), -1, np.int32), 0, 0, 1)
    for part in batch.split(3):
        first, second = (task._share_of(part, part.part) for _ in range(2))
        one, two = task.inputs.load(first), task.inputs.load(second)
        assert torch.equal(one["views"], two["views"]) and torch.equal(one["owner"], two["owner"])


def test_texts_without_neighbours_are_what_the_tower_makes_of_them():
    task, head, _ = network(2)
    tower = head.tower(unit=True, factor=1.0)
    with torch.no_grad():
        read = task.read(np.arange(N), "dual")
    np.testing.assert_allclose(tower.vectors(VIEWS[:N]), read.numpy(), atol=1e-6)
    with torch.no_grad():
        alone = head.vectors(torch.from_numpy(VIEWS[:N]))
    assert torch.allclose(alone, read, atol=1e-6)
    assert head.projection.layer.weight.device == CPU


def test_the_layer_begins_as_the_sum_of_both():
    head = GraphHead(DualConfig(tanh=False), WIDTH)
    both = torch.randn(3, 2 * WIDTH)
    assert torch.allclose(head.vectors(both), F.normalize(both[:, :WIDTH] + both[:, WIDTH:], dim=1), atol=1e-6)
    assert GraphHead(DualConfig(projection_dim=4), WIDTH).vectors(both).shape == (3, 4)
