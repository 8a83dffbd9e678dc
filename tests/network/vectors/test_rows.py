import pytest

torch = pytest.importorskip("torch")
from treetop.kernels.gpu import gathered_rows
from treetop.network.vectors.rows import RowTable
from treetop.train.optim import AdamConfig

CPU = torch.device("cpu")


def setup(bias):
    torch.manual_seed(0)
    table = RowTable(9, 4, AdamConfig(lr=0.1, weight_decay=0.1), CPU, bias=bias)
    table.init(torch.randn(9, 4), torch.randn(9))
    h = torch.randn(5, 4)
    ids = torch.tensor([[0, 3, -1], [3, 3, 8], [1, -1, -1], [-1, -1, -1], [0, 1, 2]])
    return table, h, ids


def dense(weight, h, ids, bias):
    """Every score from the whole table, then picked."""
    every = h @ weight[:, :4].T + (weight[:, 4] if bias else 0.0)
    return every.gather(1, ids.clamp_min(0)).masked_fill(ids < 0, 0.0)


@pytest.mark.parametrize("bias", [False, True])
def test_scores_gradients_and_update_equal_the_dense_way(bias, monkeypatch):
    monkeypatch.setattr(gathered_rows, "BLOCK", 24)  # several blocks
    table, h, ids = setup(bias)
    twin_h = h.clone().requires_grad_()
    weight = table.weight.clone().requires_grad_()
    h.requires_grad_()
    slope = torch.randn(5, 3)
    scores = table.logits(h, ids)
    expected = dense(weight, twin_h, ids, bias)
    torch.testing.assert_close(scores, expected)
    (scores * slope).sum().backward()
    (expected * slope).sum().backward()
    torch.testing.assert_close(h.grad, twin_h.grad)
    before = table.weight.clone()
    table.prepare(0.5, fuse=True, value=True)
    table.apply()
    touched = sorted({i for i in ids.flatten().tolist() if i >= 0})
    untouched = [i for i in range(9) if i not in touched]
    assert torch.equal(table.weight[untouched], before[untouched])
    # Dense AdamW on a table of the touched rows only; the bias column does not decay.
    part = [torch.nn.Parameter(before[touched][:, :4].clone())]
    part[0].grad = weight.grad[touched][:, :4]
    groups = [{"params": part, "weight_decay": 0.1}]
    if bias:
        part.append(torch.nn.Parameter(before[touched][:, 4:].clone()))
        part[1].grad = weight.grad[touched][:, 4:]
        groups = [{"params": part[:1], "weight_decay": 0.1}, {"params": part[1:], "weight_decay": 0.0}]
    torch.optim.AdamW(groups, lr=0.05).step()
    torch.testing.assert_close(table.weight[touched], torch.cat([p.detach() for p in part], 1))


def test_a_rare_row_moves_like_a_fresh_one():
    table = RowTable(2, 1, AdamConfig(lr=0.1, weight_decay=0.0), CPU)
    for step in range(50):
        h = torch.ones(1, 1, requires_grad=True)
        table.logits(h, torch.tensor([[0] if step < 49 else [1]])).sum().backward()
        table.apply()
    assert table.weight[1].item() == pytest.approx(-0.1, rel=1e-4)
    assert table.count.tolist() == [49, 1]


def test_micro_batches_add_up_and_forget_drops_them():
    results = []
    for parts in (1, 2):
        table, h, ids = setup(False)
        for piece_h, piece_ids in zip(h.chunk(parts), ids.chunk(parts), strict=True):
            table.logits(piece_h.requires_grad_(), piece_ids).square().sum().backward()
        table.apply()
        results.append(table.weight)
    torch.testing.assert_close(*results)
    table, h, ids = setup(False)
    before = table.weight.clone()
    table.logits(h.requires_grad_(), ids).sum().backward()
    table.forget()
    table.apply()
    assert torch.equal(before, table.weight)


@pytest.mark.parametrize("bias", [False, True])
def test_taken_rows_learn_like_dense_ones(bias):
    """A pool shared by all texts: the rows themselves, an id may stand twice."""
    table, h, _ = setup(bias)
    ids = torch.tensor([8, 3, 0, 3])
    weight = table.weight.clone().requires_grad_()
    slope = torch.randn(5, 4)
    rows = table.take(ids)
    assert torch.equal(rows, table.weight[ids])
    (h @ rows[:, :4].T * slope).sum().backward()
    (h @ weight[ids][:, :4].T * slope).sum().backward()
    before = table.weight.clone()
    table.prepare(1.0, fuse=True, value=True)
    table.apply()
    touched, untouched = [0, 3, 8], [1, 2, 4, 5, 6, 7]
    assert torch.equal(table.weight[untouched], before[untouched])
    part = torch.nn.Parameter(before[touched][:, :4].clone())
    part.grad = weight.grad[touched][:, :4]
    torch.optim.AdamW([part], lr=0.1, weight_decay=0.1).step()
    torch.testing.assert_close(table.weight[touched][:, :4], part.detach())
    with torch.no_grad():
        assert not table.take(ids).requires_grad and not table.pending
