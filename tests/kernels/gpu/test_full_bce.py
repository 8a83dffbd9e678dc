import pytest

torch = pytest.importorskip("torch")
from treetop.kernels.gpu.full_bce import Positives, full_loss
from treetop.network.losses.pairs import Pairs
from treetop.network.losses.settings import LossConfig, loss_of


@pytest.mark.parametrize("loss", ["bce", "squared_hinge"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("block", [3, 7, 100])
def test_equals_autograd_on_dense_logits(loss, weighted, block):
    torch.manual_seed(1)
    h, w, b = torch.randn(6, 5), torch.randn(17, 5), torch.randn(17)
    dense = torch.zeros(6, 17)
    dense[0, 3], dense[0, 16], dense[2, 0], dense[5, 6] = 1.0, 0.3, 1.0, 0.7  # row 1 has no positive
    row, column = dense.nonzero(as_tuple=True)
    strength = torch.tensor([2.0, 0.0, 0.5, 1.0]) if weighted else None
    weight = torch.ones(6, 17)
    if weighted:
        weight[row, column] = strength
    leaves = [t.clone().requires_grad_() for t in (h, w, b)]
    pairs = Pairs(leaves[0] @ leaves[1].T + leaves[2], dense, weight=weight)
    expected = loss_of(loss)(pairs, LossConfig(kind=loss, bce_reduction="sum")).sum() * 0.1
    expected.backward()
    grads = [torch.zeros(17, 5), torch.zeros(17)]

    def update(start, stop, grad_w, grad_b):
        grads[0][start:stop] += grad_w
        grads[1][start:stop] += grad_b

    positives = Positives(row, column, dense[row, column], strength)
    value, grad_h = full_loss(h, w, b, positives, scale=0.1, block=block, update=update, loss=loss)
    torch.testing.assert_close(value, expected.detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(grad_h, leaves[0].grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(grads[0], leaves[1].grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(grads[1], leaves[2].grad, rtol=1e-4, atol=1e-5)


def test_columns_of_other_processes_are_left_out():
    h, w = torch.randn(2, 3), torch.randn(4, 3)
    none = Positives(*(torch.zeros(0, dtype=torch.int64),) * 2, torch.zeros(0))
    foreign = Positives(torch.tensor([0, 1]), torch.tensor([-2, 4]), torch.ones(2))
    made = [full_loss(h, w, None, p, scale=1.0, block=2, update=lambda *a: None)[1] for p in (none, foreign)]
    assert torch.equal(*made)
