import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from treetop.network.losses.pairs import Pairs, relevance_weights
from treetop.network.losses.settings import LossConfig, loss_of


def slow(name, z, t, mask, weight, reduce):
    """The formulas, one number at a time."""
    made = []
    for i in range(len(z)):
        total, count = 0.0, 0
        for j in range(len(z[i])):
            if mask is not None and not mask[i][j]:
                continue
            count += 1
            if name == "bce":
                p = 1 / (1 + math.exp(-z[i][j]))
                value = -(t[i][j] * math.log(p) + (1 - t[i][j]) * math.log(1 - p))
            else:
                value = t[i][j] * max(0, 1 - z[i][j]) ** 2 + (1 - t[i][j]) * max(0, 1 + z[i][j]) ** 2
            total += value * (1 if weight is None else weight[i][j])
        made.append(total / max(count, 1) if reduce == "mean" else total)
    return made


@pytest.mark.parametrize("loss", ["bce", "squared_hinge"])
@pytest.mark.parametrize("reduce", ["mean", "sum"])
@pytest.mark.parametrize("extras", [False, True])
def test_value_and_gradient(loss, reduce, extras):
    rng = np.random.default_rng(3)
    z = rng.normal(size=(4, 6))
    t = np.where(rng.random((4, 6)) < 0.4, rng.random((4, 6)), 0.0)
    mask = rng.random((4, 6)) < 0.7 if extras else None
    if mask is not None:
        mask[2] = False  # a row without candidates
    weight = rng.random((4, 6)) + 0.5 if extras else None
    logits = torch.tensor(z, dtype=torch.float32, requires_grad=True)
    ignored = None if mask is None else ~torch.tensor(mask)
    strength = None if weight is None else torch.tensor(weight, dtype=torch.float32)
    pairs = Pairs(logits, torch.tensor(t), ignored, strength)
    made = loss_of(loss)(pairs, LossConfig(kind=loss, bce_reduction=reduce))
    np.testing.assert_allclose(made.detach(), slow(loss, z, t, mask, weight, reduce), rtol=1e-5, atol=1e-6)
    made.sum().backward()
    small = 1e-5
    for i, j in [(0, 0), (1, 3), (2, 2), (3, 5)]:
        up, down = z.copy(), z.copy()
        up[i, j] += small
        down[i, j] -= small
        slope = sum(slow(loss, up, t, mask, weight, reduce)) - sum(slow(loss, down, t, mask, weight, reduce))
        assert logits.grad[i, j].item() == pytest.approx(slope / (2 * small), abs=1e-4)


def test_padding_that_is_not_a_number_stays_out():
    z = torch.tensor([[0.3, float("inf")]], requires_grad=True)
    pairs = Pairs(z, torch.zeros(1, 2), torch.tensor([[False, True]]))
    loss_of("bce")(pairs, LossConfig(kind="bce")).sum().backward()
    assert z.grad[0, 1] == 0.0


def test_relevance_is_for_positives_only():
    made = relevance_weights(torch.tensor([[0.2, 5.0]]), torch.tensor([[1.0, 0.0]]))
    assert made.tolist() == [[pytest.approx(0.2), 1.0]]
