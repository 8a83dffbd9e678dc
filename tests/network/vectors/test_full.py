import pytest

torch = pytest.importorskip("torch")
from treetop.kernels.gpu.full_bce import Positives
from treetop.network.vectors import full
from treetop.network.vectors.full import FullTable
from treetop.train.optim import AdamConfig

CPU = torch.device("cpu")


def setup():
    torch.manual_seed(0)
    table = FullTable(13, 4, AdamConfig(lr=0.05, weight_decay=0.1), CPU)
    table.init(torch.randn(13, 4), torch.randn(13))
    positives = Positives(torch.tensor([0, 2]), torch.tensor([5, 12]), torch.tensor([1.0, 0.5]))
    return table, torch.randn(3, 4), positives


def twin(table, h, positives, steps):
    w, b = torch.nn.Parameter(table.weight.clone()), torch.nn.Parameter(table.bias.clone())
    optimiser = torch.optim.AdamW([{"params": [w], "weight_decay": 0.1}, {"params": [b], "weight_decay": 0}], lr=0.05)
    dense = torch.zeros(len(h), len(w))
    dense[positives.row, positives.column] = positives.target
    for _ in range(steps):
        optimiser.zero_grad()
        h.grad = None
        z = h @ w.T + b
        torch.nn.functional.binary_cross_entropy_with_logits(z, dense, reduction="sum").div(3).backward()
        optimiser.step()
    return w.detach(), b.detach(), h.grad


@pytest.mark.parametrize("fuse", [True, False])
def test_fused_and_gathered_updates_equal_autograd(fuse, monkeypatch):
    monkeypatch.setattr(full, "BLOCK", 15)  # 5 labels at a time
    table, h, positives = setup()
    expected = twin(table, h.clone().requires_grad_(), positives, 3)
    for _ in range(3):
        leaf = h.clone().requires_grad_()
        table.prepare(1.0, fuse=fuse, value=True)
        table.score_loss(leaf, positives, 1 / 3).backward()
        table.apply()
    torch.testing.assert_close(table.weight, expected[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(table.bias, expected[1], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(leaf.grad, expected[2], rtol=1e-4, atol=1e-5)


def test_memory_that_runs_out_behind_the_update_does_not_update_twice():
    table, h, positives = setup()
    expected = twin(table, h.clone().requires_grad_(), positives, 1)[0]
    table.prepare(1.0, fuse=True, value=True)
    table.score_loss(h.clone().requires_grad_(), positives, 1 / 3)
    table.forget()
    table.prepare(1.0, fuse=False, value=True)
    table.score_loss(h.clone().requires_grad_(), positives, 1 / 3)
    table.apply()
    torch.testing.assert_close(table.weight, expected, rtol=1e-4, atol=1e-5)
    assert table.steps == 1


def test_best_equals_sorting_everything(monkeypatch):
    monkeypatch.setattr(full, "BLOCK", 12)
    table, h, _ = setup()
    values, ids = table.best(h, 6)
    every = torch.sort(h @ table.weight.T + table.bias, dim=1, descending=True)
    assert torch.equal(ids, every.indices[:, :6])
    torch.testing.assert_close(values, every.values[:, :6])
