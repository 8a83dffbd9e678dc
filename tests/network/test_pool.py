"""The dual encoder's task against a slow, plain version: losses, gradients in parts, negatives, search."""

import dataclasses
import math
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
import toy
from kills import checkpoint_every_step
from toy_network import CPU, LEARN, cached
from treetop.assemble.dual.fit import DualPlan, start_at_texts
from treetop.assemble.dual.pairs import known_of
from treetop.labels.text import first_of_text
from treetop.network import mining as mining_module
from treetop.network.losses.settings import LossConfig
from treetop.network.pool import PoolNetwork
from treetop.network.pool_heads import ClassifierConfig, DualConfig
from treetop.network.samplers.clustered import Mining, PoolPlan
from treetop.network.samplers.pools import PoolConfig, Pools
from treetop.network.watch import rows_held_out
from treetop.tensors.devices import ALONE, World
from treetop.train import loop
from treetop.train.loop import train
from treetop.train.task import TrainConfig

N, WIDTH, LABELS = 30, 6, toy.N_LABELS
VIEWS = np.random.default_rng(0).normal(size=(N + LABELS, WIDTH)).astype(np.float32)


def setup(dual=None, classifier=None, pool=None, data=None, world=ALONE, held_out=None, **changes):
    """(network, batches, data): both heads unless one has no weight."""
    data = toy.dataset(n=N) if data is None else data
    dual = DualConfig(**{"scale": 4.0, **(dual or {})})
    classifier = ClassifierConfig(**{"dropout": 0.0, **(classifier or {})})
    pool = PoolConfig(**{"size": 20, "hard_negatives": 2, "mine_from": 1, "mine_every": 1, **(pool or {})})
    heads = DualPlan(
        dual=dual if dual.weight else None, classifier=classifier if classifier.weight else None, pool=pool,
        encoder=LEARN, heads=LEARN, vectors=LEARN, train=TrainConfig(batch_size=4),
    ).build(WIDTH, data.n_labels, CPU, world=world, seed=1)  # fmt: skip
    known, mining = known_of(data), Mining(N, N, pool)
    inputs = cached(VIEWS)
    task = PoolNetwork(
        inputs, data, known, heads, mining, view="v", encoder=LEARN, learn=LEARN, seed=1, world=world,
        watched=None if held_out is None else rows_held_out(data, inputs, held_out), **changes,
    )  # fmt: skip

    def mine(clusters, negatives):
        return mining_module.mine(task, np.arange(N), negatives=pool.kept if negatives else 0, depth=pool.mine_depth)

    plan = PoolPlan(np.arange(N), 4, 0, pools=Pools(known, pool, 0), mining=mining, config=pool, mine=mine)
    return task, plan, data


def layer(task, name):
    return task.head(name).projection.layer


def free_table(task):
    """The free label vectors, where there are any."""
    head = task.head("classifier")
    return None if head is None else head.table


def batch_of(task, plan, rows=range(9)):
    world = task.world
    return plan.pools.batch(np.array(list(rows)), task.mining.negatives.numpy(), 0, world.rank, world.size)


@dataclasses.dataclass(frozen=True)
class Threads(World):
    """A world of threads, which lay what they exchange on a table."""

    meet: threading.Barrier | None = None
    laid: dict = dataclasses.field(default_factory=dict)

    def exchange(self, tensor):
        self.laid[self.rank] = tensor.clone()
        self.meet.wait(20)
        made = [self.laid[rank] for rank in range(self.size)]
        self.meet.wait(20)
        return made

    def gather(self, tensor):
        return torch.cat(self.exchange(tensor))

    def sum(self, tensor):
        return tensor.copy_(sum(self.exchange(tensor)))

    @classmethod
    def of(cls, size):
        meet, laid = threading.Barrier(size), {}
        return [cls(rank, size, meet, laid) for rank in range(size)]


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def softplus(x):
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def decoupled(s, row, pool, Y, twins):
    mine = [j for j, label in enumerate(pool) if Y[row, label]]
    names = {twins[pool[j]] for j in mine} | {twins[label] for label in np.flatnonzero(Y[row])}
    against = [s[j] for j, label in enumerate(pool) if not Y[row, label] and twins[label] not in names]
    top = max(against)
    total = top + math.log(sum(math.exp(x - top) for x in against))
    return [softplus(total - s[j]) for j in mine], against


@pytest.mark.parametrize("dimension", [0, 4])
@pytest.mark.parametrize("added", [0.0, 0.5])
def test_both_losses_equal_the_plain_way(dimension, added):
    task, plan, data = setup(
        {"projection_dim": dimension, "weight": 0.4},
        {"projection_dim": dimension, "weight": 0.6, "scale": 2.0, "loss": LossConfig(bce_weight=added)},
    )
    batch = batch_of(task, plan)
    made = task.loss(task.load(batch, False))
    Y, twins = data.Y.toarray(), first_of_text(data.labels.texts)
    with torch.no_grad():
        base = torch.from_numpy(VIEWS)
        dual = unit((torch.tanh(layer(task, "dual")(base)) if dimension else base).numpy())
        own = (layer(task, "classifier")(base) if dimension else base).numpy()
    table = free_table(task).weight.numpy()
    values = []
    for row in batch.rows:
        s = 4.0 * dual[N + batch.pool] @ dual[row]
        z = 2.0 * table[batch.pool, :-1] @ own[row] + table[batch.pool, -1]
        first, _ = decoupled(s, row, batch.pool, Y, twins)
        second, against = decoupled(z, row, batch.pool, Y, twins)
        mine = [z[j] for j, label in enumerate(batch.pool) if Y[row, label]]
        terms = [softplus(-x) for x in mine] + [softplus(x) for x in against]
        if first:
            extra = added * sum(terms) / len(terms)
            values.append(0.4 * sum(first) / len(first) + 0.6 * (sum(second) / len(second) + extra))
    assert made.item() == pytest.approx(sum(values) / len(values), rel=1e-4)


def weights(task):
    made = {name: p.grad for module, _ in task.modules.values() for name, p in module.named_parameters()}
    return made | {f"{n}.{k}": t.clone() for n, table in task.tables.items() for k, t in table.weights().items()}


@pytest.mark.parametrize(
    "changes",
    [{}, {"labels": "all"}, {"weight": 0.0}, {"cosine": True, "bias": False}, {"embedding_norm": 3.0}],
    ids=["pool", "all", "dual alone", "unit", "length"],
)
@pytest.mark.parametrize("symmetric", [False, True])
def test_parts_give_the_gradients_of_the_whole(changes, symmetric):
    results = []
    for parts in (1, 3, 7):
        loss = LossConfig(symmetric=symmetric)
        task, plan, _ = setup({"projection_dim": 4, "loss": loss}, {"projection_dim": 5, "loss": loss, **changes})
        for table in task.tables.values():
            table.prepare(1.0, fuse=parts == 1, value=True)
        total = 0.0
        for part in batch_of(task, plan).split(parts):
            share = task.loss(task.load(part, False))
            share.backward()
            total += share.item()
        for table in task.tables.values():
            table.apply()
        results.append((total, weights(task)))
    for value, found in results[1:]:
        assert value == pytest.approx(results[0][0], rel=1e-5)
        assert found.keys() == results[0][1].keys()
        for name, tensor in found.items():
            torch.testing.assert_close(tensor, results[0][1][name], rtol=1e-4, atol=1e-6, msg=name)


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("changes", [{}, {"labels": "all"}, {"weight": 0.0}], ids=["pool", "all", "dual alone"])
def test_processes_give_the_gradients_of_one_where_texts_do_not_divide(changes, size):
    """Nine texts on two or four processes: some read one again to be as many, which must count nothing."""

    loss = LossConfig(symmetric=True)
    heads = {"projection_dim": 4, "loss": loss}, {"projection_dim": 5, "loss": loss, **changes}

    def step(made):
        task, plan, _ = made
        for table in task.tables.values():
            table.prepare(1.0, fuse=True, value=True)
        share = task.loss(task.load(batch_of(task, plan), False))
        share.backward()
        for table in task.tables.values():
            table.apply()
        grads = {name: p.grad for module, _ in task.modules.values() for name, p in module.named_parameters()}
        return share.item(), grads, {} if free_table(task) is None else free_table(task).weights()

    value, grads, rows = step(setup(*heads, world=ALONE))
    tasks = [setup(*heads, world=world) for world in Threads.of(size)]  # one by one: first weights are drawn
    with ThreadPoolExecutor(size) as pool:
        found = list(pool.map(step, tasks))
    assert sum(part[0] for part in found) == pytest.approx(value, rel=1e-5)
    for name, grad in grads.items():
        torch.testing.assert_close(sum(part[1][name] for part in found), grad, rtol=1e-4, atol=1e-6, msg=name)
    for name, tensor in rows.items():
        together = torch.cat([part[2][name] for part in found])
        torch.testing.assert_close(together, tensor, rtol=1e-4, atol=1e-6, msg=name)


def test_a_loss_draws_the_same_in_parts_and_in_every_process():
    """One positive of a text and dropped numbers of labels: what was drawn before, as processes do, plays no role."""
    made = []
    for parts, before in ((1, (1 << 32) + 7 * 1024), (3, 5), (3, 6)):  # the first as the loop seeds a step
        loss = LossConfig(positive_set="one")
        task, plan, _ = setup(
            {"projection_dim": 4, "loss": loss}, {"projection_dim": 5, "loss": loss, "label_dropout": 0.4}
        )
        batch = dataclasses.replace(batch_of(task, plan), step=7)
        torch.manual_seed(before)
        total = 0.0
        for part in batch.split(parts):
            share = task.loss(task.load(part, False))
            share.backward()
            total += share.item()
        free_table(task).apply()
        made.append((total, free_table(task).weight.clone()))
    for value, weight in made[1:]:
        assert value == pytest.approx(made[0][0], rel=1e-5)
        torch.testing.assert_close(weight, made[0][1], rtol=1e-4, atol=1e-6)


def test_dropout_drops_the_same_in_both_readings():
    """Gradients of a part agree with differences of the loss only if both readings drop alike."""
    task, plan, _ = setup({"projection_dim": 4, "dropout": 0.4}, {"weight": 0.0})
    batch = batch_of(task, plan)

    def value():
        parts = list(batch.split(2))
        shares = [task.loss(task.load(part, False)) for part in parts]
        return shares

    torch.manual_seed(0)
    for share in value():
        share.backward()
    weight = layer(task, "dual").weight
    slope, small = weight.grad[1, 2].item(), 1e-2
    ends = []
    for sign in (1, -1):
        with torch.no_grad():
            weight[1, 2] += sign * small
        torch.manual_seed(0)
        ends.append(sum(share.item() for share in value()))
        with torch.no_grad():
            weight[1, 2] -= sign * small
    assert slope == pytest.approx((ends[0] - ends[1]) / (2 * small), rel=0.05, abs=1e-3)


@pytest.mark.parametrize("changes", [{}, {"labels": "all"}])
def test_rounded_shapes_give_the_same(changes):
    results = []
    for static in (False, True):
        task, plan, _ = setup({"projection_dim": 4}, changes)
        for table in task.tables.values():
            table.prepare(1.0, fuse=True, value=True)
        loaded = task.load(batch_of(task, plan), static)
        assert (loaded.key is not None) == static
        loss = task.loss(loaded)
        loss.backward()
        for table in task.tables.values():
            table.apply()
        results.append((loss.item(), weights(task)))
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-6)
    for name, tensor in results[0][1].items():
        torch.testing.assert_close(tensor, results[1][1][name])


def no_negatives(data):
    """(documents, labels) positives, labels of the same text as one of them, and labels that are nowhere positive."""
    twins = first_of_text(data.labels.texts)
    return ((data.Y.toarray() @ (twins[:, None] == twins)) > 0) | (data.label_counts == 0)


def test_hard_negatives_are_the_nearest_wrong_labels():
    _, plan, data = setup(pool={"mine_depth": 10, "hard_negatives": 3, "mine_every": 2})
    vectors, found = plan.mine(True, True)
    dual, barred = unit(VIEWS), no_negatives(data)
    np.testing.assert_allclose(vectors, dual[:N], atol=1e-6)
    for row in range(N):
        order = [label for label in np.argsort(-(dual[N:] @ dual[row]))[:10] if not barred[row, label]]
        assert found[row][: len(order[:6])].tolist() == order[:6]


def test_the_classifier_finds_them_where_the_dual_encoder_does_not_learn():
    task, plan, data = setup(
        {"weight": 0.0}, {"cosine": True, "bias": False}, {"clustered": False, "hard_negatives": 1}
    )
    start_at_texts(task, np.arange(N), 0)
    np.testing.assert_allclose(free_table(task).weight.numpy(), unit(VIEWS[N:]), atol=1e-6)
    _, found = plan.mine(True, True)
    scores = unit(VIEWS[:N]) @ unit(VIEWS[N:]).T
    scores[no_negatives(data)] = -9
    assert found[:, 0].tolist() == scores.argmax(1).tolist()


def test_label_vectors_start_at_their_texts_and_biases_at_the_odds():
    task, _, data = setup(classifier={"init_scale": 12.0, "labels": "all"})
    start_at_texts(task, np.arange(N), 0)
    H, T = VIEWS[:N], VIEWS[N:]
    centre = H.mean(0)
    V = unit(T - T.mean(0)) * 12.0 / np.linalg.norm(H - centre, axis=1).mean()
    table = free_table(task)
    np.testing.assert_allclose(table.weight.numpy(), V, rtol=1e-4, atol=1e-5)
    share = (data.label_counts + 0.5) / (N + 1)
    np.testing.assert_allclose(table.weight.numpy() @ centre + table.bias.numpy(), np.log(share), atol=1e-4)


def test_it_learns_and_is_the_same_after_a_kill(tmp_path, monkeypatch):
    def run(work=None, stop=None):
        task, plan, _ = setup({"projection_dim": 6, "dropout": 0.1}, {"projection_dim": 6}, held_out=np.arange(N))
        real = loop._Run._step

        def step(self, batch):
            if batch.step == stop:
                raise KeyboardInterrupt
            real(self, batch)

        with monkeypatch.context() as patch:
            patch.setattr(loop._Run, "_step", step)
            checkpoint_every_step(patch)
            before = task.validate().score
            try:
                train(task, plan, TrainConfig(epochs=6, batch_size=8, checkpoint_seconds=0.0), work=work)
            except KeyboardInterrupt:
                return None
        assert task.validate().score > before
        return task

    whole = run()
    for stop in (3, 8, 14):  # before, at and behind a refresh
        assert run(tmp_path, stop) is None
    again = run(tmp_path)
    assert torch.equal(free_table(again).weight, free_table(whole).weight)
    assert torch.equal(layer(again, "dual").weight, layer(whole, "dual").weight)
    assert whole.state().keys() == {"leaf", "negatives", "epoch"} and int(whole.state()["epoch"]) > 1
    for name, tensor in whole.state().items():
        assert torch.equal(again.state()[name], tensor), name


def test_label_vectors_learn_the_same_wherever_they_lie():
    made, touched = [], []
    for offload in (False, True):
        task, plan, _ = setup({"projection_dim": 6}, {"projection_dim": 6, "offload": offload}, held_out=np.arange(N))
        train(task, plan, TrainConfig(epochs=3, batch_size=8))
        made.append((free_table(task).state(), task.validate()))
        touched.append(int((free_table(task).count > 0).sum()))
    (a, first), (b, second) = made
    assert first == second and touched[0] == touched[1] > 0
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_vectors_are_read_by_the_head_asked_for():
    task, _, _ = setup({"projection_dim": 6}, {"projection_dim": 5})
    rows = np.array([3, 31, 0, 8])
    base = torch.from_numpy(VIEWS[rows])
    for name in ("dual", "classifier"):
        with torch.no_grad():
            expected = task.head(name).vectors(base)
        assert expected.shape == (4, {"dual": 6, "classifier": 5}[name])
        torch.testing.assert_close(task.read(rows, name), expected)
    alone, _, _ = setup(classifier={"weight": 0.0})
    assert alone.head("classifier") is None
    with pytest.raises(ValueError, match="no head is called 'classifier'"):
        alone.read(rows, "classifier")


def test_memory_that_runs_out_is_read_in_parts(monkeypatch):
    task, plan, _ = setup({"projection_dim": 4})
    twin, twin_plan, _ = setup({"projection_dim": 4})
    real, refused = PoolNetwork._vectors, []

    def vectors(self, message):
        if self is task and message.facts > 12:
            refused.append(message.facts)
            raise torch.OutOfMemoryError("simulated")
        return real(self, message)

    monkeypatch.setattr(PoolNetwork, "_vectors", vectors)
    config = TrainConfig(epochs=1, batch_size=8)
    made = train(task, dataclasses.replace(plan, mine=twin_plan.mine), config)
    train(twin, twin_plan, config)
    assert refused and made.micro_batches > 1
    torch.testing.assert_close(free_table(task).weight, free_table(twin).weight, rtol=1e-3, atol=1e-4)
