"""Fused layers and gathered rows against plain torch; on a GPU, or anywhere with TRITON_INTERPRET=1."""

import pytest

torch = pytest.importorskip("torch")
from treetop.kernels.gpu import gathered_rows, one_pass_layers, triton_runs
from treetop.network.vectors.rows import RowTable
from treetop.train.optim import AdamConfig

GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")


def needs_programs():
    if not (GPU or triton_runs.INTERPRETED):
        pytest.skip("no GPU, and TRITON_INTERPRET is not set")
    pytest.importorskip("triton")


def test_exchange_keeps_names_and_results():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.LayerNorm(5), torch.nn.Linear(5, 2, bias=False))
    x = torch.randn(7, 6)
    before, names = net(x), list(net.state_dict())
    one_pass_layers.exchange(net)
    assert isinstance(net[0], one_pass_layers.Linear) and isinstance(net[1], one_pass_layers.Norm)
    assert type(net[2]) is torch.nn.Linear and list(net.state_dict()) == names
    torch.testing.assert_close(net(x), before)


@pytest.mark.parametrize("shape", [(1, 37, 24), (3, 5, 384)])
def test_norm_and_affine_equal_torch(shape):
    needs_programs()
    torch.manual_seed(0)
    width = shape[-1]
    x = torch.randn(shape, device=DEVICE) + 1.0
    weight, bias = torch.randn(width, device=DEVICE), torch.randn(width, device=DEVICE)
    matrix, offset = torch.randn(130, width, device=DEVICE), torch.randn(130, device=DEVICE)

    def norm(a, b, c):
        return one_pass_layers.LayerNorm.apply(a, b, c, 1e-5)

    def plain(a, b, c):
        return torch.nn.functional.layer_norm(a, (width,), b, c)

    cases = (
        (norm, plain, (x, weight, bias)),
        (one_pass_layers.Affine.apply, torch.nn.functional.linear, (x, matrix, offset)),
    )
    for ours, theirs, leaves in cases:
        grads = []
        for function in (ours, theirs):
            held = [leaf.clone().requires_grad_() for leaf in leaves]
            out = function(*held)
            torch.manual_seed(1)
            out.backward(torch.randn(out.shape, device=DEVICE))
            grads.append([out.detach(), *(leaf.grad for leaf in held)])
        for a, b in zip(*grads, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)


def test_gathered_rows_equal_the_twins():
    needs_programs()
    torch.manual_seed(0)
    table, h = torch.randn(11, 20, device=DEVICE), torch.randn(4, 20, device=DEVICE)
    ids = torch.randint(-1, 11, (4, 45), device=DEVICE)
    slope = torch.randn(4, 45, device=DEVICE)
    made = [gathered_rows.dots(table, ids, h), gathered_rows.weighted_sums(table, ids, slope)]
    every = h @ table.T
    torch.testing.assert_close(
        made[0], every.gather(1, ids.clamp_min(0)).masked_fill(ids < 0, 0.0), rtol=1e-3, atol=1e-3
    )
    dense = torch.zeros(4, 12, device=DEVICE).index_put_(
        (torch.arange(4, device=DEVICE)[:, None].expand_as(ids), ids % 12), slope, accumulate=True
    )
    torch.testing.assert_close(made[1], dense[:, :11] @ table, rtol=1e-3, atol=1e-3)


def test_row_update_equals_the_twin():
    needs_programs()
    torch.manual_seed(0)
    h = torch.randn(4, 20, device=DEVICE)
    ids = torch.tensor([[0, 3, -1], [3, 3, 8], [1, -1, -1], [0, 9, 2]], device=DEVICE)
    tables = []
    for plain in (True, False):
        torch.manual_seed(1)
        weight = torch.randn(11, 20, device=DEVICE)
        empty = [torch.zeros_like(weight) for _ in range(2)]
        table = gathered_rows.Rows(weight, *empty, torch.zeros(11, dtype=torch.int32, device=DEVICE), 1)
        for step in range(3):
            chosen = ids if step != 1 else ids[:2]
            owner = torch.arange(len(chosen), device=DEVICE).repeat_interleave(3)
            slope = torch.randn(chosen.numel(), device=DEVICE).masked_fill(chosen.reshape(-1) < 0, 0.0)
            constants = (0.1, 0.9, 0.99, 1e-8)
            if plain:
                gathered_rows._update_plain(table, chosen.reshape(-1), owner, slope, h, 0.05, constants)
            else:
                gathered_rows.update(table, chosen.reshape(-1), owner, slope, h, rate=0.05, constants=constants)
        tables.append(table)
    for name in ("weight", "first", "second", "count"):
        torch.testing.assert_close(getattr(tables[0], name), getattr(tables[1], name), rtol=1e-4, atol=1e-5, msg=name)


def test_rows_on_the_host_learn_to_the_bit_as_on_the_device():
    """Pools with void and repeated ids, read and updated where the rows lie."""
    needs_programs()
    made = []
    for host in (False, True):
        torch.manual_seed(0)
        table = RowTable(50, 19, AdamConfig(lr=0.1, weight_decay=0.1), DEVICE, bias=True, host=host)
        table.init(torch.randn(50, 19), torch.randn(50))
        seen = []
        for step in range(3):
            pool = torch.cat([torch.randperm(50)[: 9 + step], torch.tensor([49, 49])]).to(DEVICE)
            pool[step] = -1
            rows = table.take(pool)
            assert rows.device.type == DEVICE.type
            plain = table.weight.to(DEVICE)[pool.clamp_min(0)].masked_fill(pool[:, None] < 0, 0.0)
            assert torch.equal(rows, plain)
            rows.backward(torch.randn(rows.shape).to(DEVICE))
            table.prepare(0.5, fuse=True, value=True)
            table.apply()
            seen.append(rows.detach().cpu())
        assert table.weight.device.type == ("cpu" if host else DEVICE.type) and table.weight.is_pinned() == (
            host and GPU
        )
        made.append([*seen, *(tensor.cpu() for tensor in table.state().values())])
    for a, b in zip(*made, strict=True):
        assert torch.equal(a, b)


def test_all_of_a_row_is_updated_with_one_count():
    """Warps share a row's count: one that read it after another had raised it would take a smaller step."""
    needs_programs()
    torch.manual_seed(0)
    n, width = (100_000 if GPU else 64), 385
    G = torch.randn(n, width, device=DEVICE).sign() * (0.5 + torch.rand(n, width, device=DEVICE))
    ids, ones = torch.arange(n, device=DEVICE), torch.ones(n, device=DEVICE)
    made = []
    for _ in range(3 if GPU else 1):
        held = [torch.zeros(n, width, device=DEVICE) for _ in range(3)]
        table = gathered_rows.Rows(*held, torch.zeros(n, dtype=torch.int32, device=DEVICE), 1)
        gathered_rows.update(table, ids, ids, ones, G, rate=0.05, constants=(0.0, 0.9, 0.999, 1e-8))
        made.append(table.weight)
    torch.testing.assert_close(made[0], -0.05 * G.sign(), rtol=1e-3, atol=1e-6)  # Adam's first step from zero
    assert all(torch.equal(made[0], other) for other in made[1:])
