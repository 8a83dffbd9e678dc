"""GLaS: the penalty is its equation, its gradient reaches the label vectors, and training follows it."""

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from toy_network import CPU, FLAT, TREE, WIDTH, L, N, batch, loss_of, network, soft
from treetop.core.errors import ConfigError
from treetop.kernels import reference
from treetop.network.build import Blueprint, Learning
from treetop.network.losses.glas import GramPenalty
from treetop.tensors.devices import World
from treetop.train.batches import Plan
from treetop.train.loop import train
from treetop.train.optim import AdamConfig
from treetop.train.task import TrainConfig

ROWS = [0, 3, 7, N + 1, N + 5, N + 30]  # documents and label texts


def task(tree, dataset, *, penalty=None, keep=3):
    return network(tree, dataset, keep=keep, penalty=penalty)


def gram(data, **changes):
    S = sparse.csr_matrix(reference.label_shares(data.Y[:N].toarray(), 0.0, symmetric=True))
    return GramPenalty(**{"S": S, "Y": data.Y, "weight": 2.0, "labels": 12, "unit": False, "seed": 0, **changes})


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("tree", [FLAT, TREE])
def test_penalty_is_the_equation_and_reaches_the_vectors(tree, unit):
    data = soft()
    penalty = gram(data, unit=unit)
    message = penalty.load(batch(ROWS), CPU)
    ids, known = message["ids"].numpy(), message["shares"].numpy()
    assert len(ids) == len(set(ids.tolist())) == 12 and set(data.Y[ROWS].indices[:1]) <= set(ids.tolist()) | {-1}
    np.testing.assert_array_equal(known, penalty.S.toarray()[np.ix_(ids, ids)])
    priced, _ = task(tree, data, penalty=penalty)
    free, _ = task(tree, data)
    grads, losses = [], []
    for made in (priced, free):
        torch.manual_seed(0)
        table = made.heads[-1].vectors
        fill = torch.randn(L, WIDTH) * 0.3
        table.init(fill)
        table.prepare(1.0, fuse=False, value=True)
        loss = loss_of(made, ROWS)
        loss.backward() if loss.requires_grad else None
        losses.append(loss.item())
        if made.heads[-1].one_pass is not None:
            grads.append(table.grads[0][:L].clone())
            continue
        dense = torch.zeros(L, WIDTH + 1)
        for h, at, slope in table.pending:
            for k in range(at.shape[1]):
                inside = at[:, k] >= 0
                dense.index_add_(0, at[inside, k], h[inside] * slope[inside, k, None])
        grads.append(dense[:, :WIDTH])
    W = fill.double().requires_grad_()
    w = W[torch.from_numpy(ids)]
    w = torch.nn.functional.normalize(w, dim=1) if unit else w
    price = 0.0
    for i in range(12):
        for j in range(12):
            price = price + 2.0 * (w[i] @ w[j] - float(known[i, j])) ** 2 / 144
    price.backward()
    assert losses[0] - losses[1] == pytest.approx(price.item(), rel=1e-3)
    np.testing.assert_allclose((grads[0] - grads[1]).detach().numpy(), W.grad.numpy(), atol=1e-4)


@pytest.mark.parametrize("tree", [FLAT, TREE])
@pytest.mark.parametrize("accumulate", [1, 3])
def test_priced_vectors_come_nearer_to_the_graph(tree, accumulate):
    data = soft()

    def distance(weight):
        penalty = gram(data, weight=weight, labels=40)
        made, _ = task(tree, data, penalty=penalty, keep=4)
        train(made, Plan(np.arange(len(data)), 14, 0), TrainConfig(epochs=12, batch_size=14, accumulate=accumulate))
        V = made.heads[-1].vectors.weight[:, :WIDTH].numpy()
        return float(((V @ V.T - penalty.S.toarray()) ** 2).mean())

    assert distance(50.0) < 0.7 * distance(0.0)


def test_several_processes_are_refused():
    blueprint = Blueprint([], TREE, Learning(encoder=AdamConfig(), heads=AdamConfig()))
    with pytest.raises(ConfigError, match="glas: works in one process only, not in 2"):
        blueprint.check(soft(), None, gram(soft()), World(0, 2))
