import numpy as np
import pytest

torch = pytest.importorskip("torch")
from kills import checkpoint_every_step
from toy_task import LABELS, WIDTH, N, ToyTask
from treetop.core.errors import ConfigError
from treetop.kernels.gpu.full_bce import Positives
from treetop.network.vectors.full import FullTable
from treetop.network.vectors.full_low import LowTable, table_of
from treetop.tensors.devices import ALONE, World
from treetop.train.batches import Plan
from treetop.train.loop import train
from treetop.train.optim import AdamConfig, DescentConfig
from treetop.train.task import TrainConfig

CPU = torch.device("cpu")
PLAN = Plan(np.arange(N), 8, seed=3)


def setup(seed=1, world=ALONE, **config):
    torch.manual_seed(0)
    table = LowTable(13, 4, DescentConfig(lr=0.5, **config), CPU, world=world, seed=seed)
    table.init(torch.randn(13, 4), torch.randn(13))
    positives = Positives(torch.tensor([0, 2]), torch.tensor([5, 12]), torch.tensor([1.0, 0.5]))
    return table, torch.randn(3, 4), positives


def test_a_row_moves_vectors_as_far_in_any_batch():
    """A step is made of a batch's mean: with the rate in proportion, four small batches move as far as one of all."""

    def moved(batch):
        table = LowTable(3, 4, DescentConfig(lr=2.0).at(batch), CPU, bias=False)
        for _ in range(64 // batch):
            table.prepare(1.0, fuse=False, value=False)
            rows = torch.arange(batch)
            positives = Positives(rows, torch.zeros(batch, dtype=torch.int64), torch.ones(batch))
            table.learn(torch.full((batch, 4), 0.1), positives, 1 / batch)
            table.apply()
        return table.weight[0].double().mean()

    assert moved(64) > 0
    torch.testing.assert_close(moved(16), moved(64), rtol=0.05, atol=0.0)


def step(table, h, positives, *, apply=True):
    leaf = h.clone().requires_grad_()
    table.prepare(1.0, fuse=True, value=True)
    table.score_loss(leaf, positives, 1 / 3).backward()
    if apply:
        table.apply()
    return leaf.grad


def test_a_step_is_that_of_autograd_up_to_bfloat16():
    table, h, positives = setup(weight_decay=0.1)
    w, b = (x.clone().float().requires_grad_() for x in (table.weight, table.bias))
    leaf, dense = h.clone().requires_grad_(), torch.zeros(3, 13)
    dense[positives.row, positives.column] = positives.target
    z = leaf @ w.T + b
    (torch.nn.functional.binary_cross_entropy_with_logits(z, dense, reduction="sum") / 3).backward()
    grad = step(table, h, positives)
    torch.testing.assert_close(grad, leaf.grad, rtol=1e-5, atol=1e-6)
    wanted = w.detach() - 0.5 * (w.grad + 0.1 * w.detach())
    assert ((table.weight.float() - wanted).abs() <= 2**-7 * wanted.abs() + 1e-6).all()
    torch.testing.assert_close(table.bias, b.detach() - 0.5 * b.grad, rtol=1e-5, atol=1e-6)
    assert table.weight.dtype == torch.bfloat16 and (table._weight[13:] == 0).all()


def test_rounding_repeats_with_the_seed_and_differs_without():
    made = []
    for seed in (1, 1, 2):
        table, h, positives = setup(seed)
        for _ in range(5):
            step(table, h, positives)
        made.append(table.weight.clone())
    assert torch.equal(made[0], made[1]) and not torch.equal(made[0], made[2])


def test_shares_of_processes_are_rows_of_the_whole(monkeypatch):
    """One step by each of two processes; what they would exchange is the same here."""
    whole, h, positives = setup()
    step(whole, h, positives)
    monkeypatch.setattr(World, "gather", lambda self, x: x)
    monkeypatch.setattr(World, "sum", lambda self, x: torch.cat([x, x]))
    parts = []
    for rank in range(2):
        table, _, _ = setup(world=World(rank, 2))
        table.prepare(1.0, fuse=True, value=True)
        table.score_loss(h, positives, 1 / 3)
        parts.append(table.weight)
    assert torch.equal(torch.cat(parts), whole.weight)


def test_memory_that_runs_out_behind_the_update_does_not_update_twice():
    table, h, positives = setup()
    once, _, _ = setup()
    step(once, h, positives)
    step(table, h, positives, apply=False)
    table.forget()
    step(table, h, positives)
    assert torch.equal(table.weight, once.weight) and torch.equal(table.bias, once.bias)
    step(table, h, positives)
    assert not torch.equal(table.weight, once.weight)


def test_best_is_sorting_everything():
    table, h, _ = setup()
    every = torch.sort(h @ table.weight.float().T + table.bias, dim=1, descending=True)
    assert torch.equal(table.best(h, 6)[1], every.indices[:, :6])


class LowTask(ToyTask):
    def __init__(self, **more):
        super().__init__(**more)
        self.full = self.tables["full"] = LowTable(LABELS, WIDTH, DescentConfig(lr=0.5), self.device)


def run(task, **more):
    config = TrainConfig(**{"epochs": 6, "patience": 9, "checkpoint_seconds": 0.0} | more.pop("config", {}))
    return train(task, PLAN, config, **more)


def test_training_learns_survives_little_memory_and_micro_batches():
    start, whole = (run(LowTask(), config={"epochs": epochs}).loss for epochs in (1, 30))
    assert whole < 0.8 * start
    for task, config in ((LowTask(limit=3), {}), (LowTask(), {"accumulate": 4})):
        assert run(task, config={"epochs": 30, **config}).loss == pytest.approx(whole, rel=0.2)


def test_a_killed_run_ends_in_the_same_bits(tmp_path, monkeypatch):
    checkpoint_every_step(monkeypatch)
    whole = LowTask()
    run(whole)
    for stop in (4, 11):
        task = LowTask()

        def broken(batch, stop=stop, real=task.step):
            if batch.step == stop:
                raise KeyboardInterrupt
            return real(batch)

        task.step = broken
        with pytest.raises(KeyboardInterrupt):
            run(task, work=tmp_path)
    resumed = LowTask()
    run(resumed, work=tmp_path)
    for name, tensor in whole.weights().items():
        assert torch.equal(tensor, resumed.weights()[name]), name
    assert torch.equal(whole.full.draw, resumed.full.draw) and whole.full.draw[1] == 30


def test_the_table_follows_the_settings():
    more = {"bias": True, "world": ALONE, "seed": 0}
    assert isinstance(table_of(3, 4, AdamConfig(), CPU, **more), FullTable)
    assert isinstance(table_of(3, 4, DescentConfig(), CPU, **more), LowTable)
    for wrong in ({"separate": True}, {"loss": "squared_hinge"}):
        with pytest.raises(ConfigError, match="memory: 'low'"):
            table_of(3, 4, DescentConfig(), CPU, **more, **wrong)
