"""A head that scores every label against a plain loop: ignored pairs, relevance, soft targets, any kind of vectors."""

import math

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch")
from toy_network import CPU, LEARN, batch
from treetop.network.candidates.everything import Everything
from treetop.network.head import Head, HeadPlan
from treetop.network.losses.settings import LossConfig
from treetop.network.projection import Projection
from treetop.network.targets import BatchTargets, TargetRows
from treetop.network.vectors.dense import Dense
from treetop.network.vectors.full import FullTable
from treetop.network.vectors.rows import RowTable
from treetop.train.batches import Loaded, Message

ROWS, LABELS, WIDTH = 7, 9, 4
VECTORS = {
    "dense": lambda loss: Dense(LABELS, WIDTH),
    "rows": lambda loss: RowTable(LABELS, WIDTH, LEARN, CPU, bias=True),
    "full": lambda loss: FullTable(LABELS, WIDTH, LEARN, CPU, loss=loss),
}


def case():
    """Targets, relevance where they are and ignored pairs, some of them positives, as dense matrices."""
    rng = np.random.default_rng(0)
    Y = np.where(rng.random((ROWS, LABELS)) < 0.3, rng.choice([0.5, 1.0], (ROWS, LABELS)), 0.0)
    Y[2] = 0.0
    relevance = np.where(Y > 0, rng.uniform(0.2, 4.0, Y.shape), 0.0)
    ignored = rng.random(Y.shape) < 0.25
    ignored[4] = True  # a row nothing is known about
    assert (ignored & (Y > 0)).any()
    return Y, relevance, ignored


def pay(z, y, loss):
    if loss == "bce":
        return math.log1p(math.exp(-abs(z))) + max(z, 0) - y * z
    return y * max(0, 1 - z) ** 2 + (1 - y) * max(0, 1 + z) ** 2


def plain(Z, Y, relevance, ignored, loss, reduce, divisor):
    """`divisor`: what a mean divides by; None: the labels that count."""
    total = 0.0
    for i in range(ROWS):
        counted = [j for j in range(LABELS) if ignored is None or not ignored[i, j]]
        value = 0.0
        for j in counted:
            weight = relevance[i, j] if relevance is not None and Y[i, j] > 0 else 1.0
            value += weight * pay(Z[i, j], Y[i, j], loss)
        total += value / ((divisor or max(1, len(counted))) if reduce == "mean" else 1)
    return 0.7 * total / ROWS


@pytest.mark.parametrize("weighs", [False, True])
@pytest.mark.parametrize("ignores", [False, True])
@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize("loss", ["bce", "squared_hinge"])
@pytest.mark.parametrize("kind", VECTORS)
def test_every_label_is_scored_as_a_plain_loop_does(kind, loss, reduce, ignores, weighs):
    torch.manual_seed(0)
    Y, relevance, ignored = case()
    vectors = VECTORS[kind](loss)
    V, b = torch.randn(LABELS, WIDTH), torch.randn(LABELS)
    vectors.init(V, b)
    plan = HeadPlan(view="v", view_width=WIDTH, n=LABELS, weight=0.7)
    config = LossConfig(kind=loss, bce_reduction=reduce)
    head = Head(plan, vectors, Everything(LABELS), config, projection=Projection(WIDTH), device=CPU)
    gathered = [TargetRows(sparse.csr_matrix(x.astype(np.float32)), CPU).gather(np.arange(ROWS)) for x in case()]
    known = BatchTargets(gathered[0], gathered[1] if weighs else None, gathered[2] if ignores else None)
    h = torch.randn(ROWS, WIDTH, requires_grad=True)
    loaded = Loaded(batch(range(ROWS)), {"labels": Message()})
    value, above = head.loss({"v": h}, known, loaded, None)
    more = relevance if weighs else None, ignored if ignores else None, loss, reduce, LABELS if kind == "full" else None
    Z = (h.detach() @ V.T + b).double().numpy()
    assert value.item() == pytest.approx(plain(Z, Y, *more), rel=1e-5)
    if kind != "full":
        torch.testing.assert_close(above.logits, torch.from_numpy(Z).float())
        assert above.ids is None and np.array_equal(above.target, Y.astype(np.float32))
    value.backward()
    small, slope = 1e-5, h.grad[3, 1].item()
    rise = []
    for sign in (1, -1):
        moved = Z.copy()
        moved[3] += sign * small * V[:, 1].double().numpy()
        rise.append(plain(moved, Y, *more))
    assert slope == pytest.approx((rise[0] - rise[1]) / (2 * small), rel=1e-3, abs=1e-6)


def test_ranks_bar_labels_and_take_on_the_length_of_views():
    vectors = VECTORS["rows"]("bce")
    V, b = torch.randn(LABELS, WIDTH), torch.randn(LABELS)
    vectors.init(V, b)
    plan, unseen = HeadPlan(view="v", view_width=WIDTH, n=LABELS, length=3.0), np.arange(LABELS) == 5
    projection = Projection(WIDTH, length=3.0)
    head = Head(plan, vectors, Everything(LABELS), LossConfig(kind="bce"), projection=projection, device=CPU)
    rank, view = head.rank(unseen), torch.randn(2, WIDTH)
    unit = torch.nn.functional.normalize(view, dim=1).numpy()
    scores = head.vectors.logits(projection(view), None).detach().numpy()
    ours = unit @ rank.weight.T + rank.bias
    assert np.isneginf(ours[:, 5]).all()
    np.testing.assert_allclose(ours[:, ~unseen], scores[:, ~unseen], rtol=1e-4, atol=1e-5)
