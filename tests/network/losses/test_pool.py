"""Pool losses against the formulas written out one number at a time."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from treetop.core import registry
from treetop.network.losses.pool import drawn, pool_loss
from treetop.network.losses.settings import LossConfig

ROWS, POOL = 6, 9
LOSSES = registry.names("loss")


def lse(values):
    top = max(values, default=-math.inf)
    return top if top == -math.inf else top + math.log(sum(math.exp(v - top) for v in values))


def softplus(x):
    return 0.0 if x == -math.inf else max(x, 0) + math.log1p(math.exp(-abs(x)))


def sigmoid(x):
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def soft_topk(s, pos, neg, c):
    real = pos + neg
    places = min(c.k, 0.5 * len(real))
    low, high = -100.0, 100.0
    for _ in range(200):
        t = (low + high) / 2
        if sum(sigmoid(c.sharpness * (s[j] + t)) for j in real) < places:
            low = t
        else:
            high = t
    return t


def slow_row(s, pos, neg, chosen, c):
    """The loss of one row; other positives than `chosen` are void where one is picked."""
    pos = chosen if c.positive_set == "one" else pos
    hard = sorted((s[j] for j in neg), reverse=True)[: c.hard_negatives]
    every, made = pos + neg, []
    if c.kind == "infonce":
        return lse([s[j] for j in chosen + neg]) - lse([s[j] for j in chosen])
    if c.kind == "bce":
        terms = [softplus(s[j]) - s[j] * (j in pos) for j in every]
        return sum(terms) / (len(every) if c.bce_reduction == "mean" else 1)
    if c.kind == "squared_hinge":
        terms = [max(0, 1 - s[j]) ** 2 if j in pos else max(0, 1 + s[j]) ** 2 for j in every]
        return sum(terms) / (len(every) if c.bce_reduction == "mean" else 1)
    for p in chosen:
        if c.kind == "supcon":
            made.append(lse([s[j] for j in every]) - s[p])
        elif c.kind == "decoupled":
            made.append(lse([s[j] for j in [p, *neg]]) - s[p])
        elif c.kind == "balanced":
            made.append(lse([s[j] - math.log(len(pos)) for j in pos] + [s[j] for j in neg]) - s[p])
        elif c.kind == "triplet":
            gaps = [max(0.0, h - s[p] + c.margin) for h in hard]
            if c.temperature == 0:
                made.append(sum(gaps) / max(1, len(hard)))
            else:
                weights = [math.exp((h - hard[0]) / c.temperature) * (g > 0) for h, g in zip(hard, gaps, strict=True)]
                made.append(sum(g * w for g, w in zip(gaps, weights, strict=True)) / (sum(weights) or 1.0))
        elif c.kind == "kprob":
            made.append(-math.log(c.kprob_c) + c.sharpness * (1 - s[p]))
        else:
            made.append(-math.log(sigmoid(c.sharpness * (s[p] + soft_topk(s, pos, neg, c)))))
    value = sum(made) / len(made)
    if c.kind == "kprob":
        terms = [-math.log(1 - c.kprob_c * math.exp(c.sharpness * (min(h, 1.0) - 1))) for h in hard]
        value += sum(t for t in terms if t > c.min_loss) / max(1, len(hard))
    return value


def slow(s, positive, void, chosen, c):
    """The mean over rows that have a positive; a bce added to it knows all of them."""
    values = []
    for i in range(len(s)):
        pos = [j for j in range(len(s[i])) if positive[i][j] > 0]
        neg = [j for j in range(len(s[i])) if positive[i][j] <= 0 and not void[i][j]]
        count = [j for j in pos if chosen[i][j]]
        if count:
            value = slow_row(s[i], pos, neg, count, c)
            if c.bce_weight:
                terms = [softplus(s[i][j]) - s[i][j] * (j in pos) for j in pos + neg]
                value += c.bce_weight * sum(terms) / (len(terms) if c.bce_reduction == "mean" else 1)
            values.append(value)
    return sum(values) / max(1, len(values))


def case(seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    s = np.tanh(rng.normal(size=(ROWS, POOL))) * scale
    positive = (rng.random((ROWS, POOL)) < 0.3).astype(np.float64)
    positive[1] = 0  # a row without positives
    positive[2] = 1  # and one without negatives
    positive[:, 4] = 0  # a label without queries
    positive[3] = 0
    positive[3, 5] = 1
    void = (rng.random((ROWS, POOL)) < 0.15) & (positive == 0)
    return s, positive, void


VARIANTS = [
    *({"kind": kind} for kind in LOSSES),
    {"kind": "triplet", "temperature": 0.0},
    {"kind": "triplet", "margin": 0.0, "hard_negatives": 2},
    {"kind": "kprob", "min_loss": 0.2, "hard_negatives": 3},
    {"kind": "decoupled", "bce_weight": 0.7},
    {"kind": "bce", "bce_reduction": "sum"},
    {"kind": "soft_topk", "k": 2, "sharpness": 1.0},
]


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: "-".join(str(x) for x in v.values()))
@pytest.mark.parametrize("pick", ["all", "pool", "one"])
def test_value_and_gradient_equal_the_plain_way(variant, pick):
    config = LossConfig(positive_set=pick, **variant)
    s, positive, void = case()
    t, v = torch.tensor(positive), torch.tensor(void)
    torch.manual_seed(3)
    chosen = drawn(t) if pick == "one" else t
    torch.manual_seed(3)  # the same draw again inside
    z = torch.tensor(s, requires_grad=True)
    made = pool_loss(z, t, config, v)
    assert made.item() == pytest.approx(slow(s, positive, void, chosen.numpy() > 0, config), rel=1e-5, abs=1e-7)
    made.backward()
    assert torch.isfinite(z.grad).all()
    small = 1e-6
    for i in range(ROWS):
        for j in range(0, POOL, 2):
            up, down = s.copy(), s.copy()
            up[i, j] += small
            down[i, j] -= small
            rise = slow(up, positive, void, chosen.numpy() > 0, config)
            rise -= slow(down, positive, void, chosen.numpy() > 0, config)
            assert z.grad[i, j].item() == pytest.approx(rise / (2 * small), abs=2e-5)
    assert (z.grad[v] == 0).all()  # void pairs move nothing


@pytest.mark.parametrize("kind", LOSSES)
def test_symmetric_is_both_directions_in_their_weights(kind):
    s, positive, void = case(1)
    one, both = LossConfig(kind=kind), LossConfig(kind=kind, symmetric=True, symmetric_weight=0.25)
    z, t, v = torch.tensor(s), torch.tensor(positive), torch.tensor(void)
    ahead, back = pool_loss(z, t, one, v), pool_loss(z.T, t.T, one, v.T)
    assert pool_loss(z, t, both, v).item() == pytest.approx(0.75 * ahead.item() + 0.25 * back.item(), rel=1e-9)
    added = pool_loss(z, t, LossConfig(kind=kind, bce_weight=0.5), v) - ahead  # of the queries alone, symmetric or not
    whole = pool_loss(z, t, LossConfig(kind=kind, bce_weight=0.5, symmetric=True, symmetric_weight=0.25), v)
    assert whole.item() == pytest.approx(0.75 * ahead.item() + 0.25 * back.item() + added.item(), rel=1e-9)


@pytest.mark.parametrize("kind", LOSSES)
def test_low_precision_and_large_products_stay_finite(kind):
    s, positive, void = case(2, scale=1.0 if kind == "kprob" else 900.0)  # exp of these overflows
    z = torch.tensor(s, dtype=torch.bfloat16, requires_grad=True)
    made = pool_loss(z, torch.tensor(positive).float(), LossConfig(kind=kind), torch.tensor(void))
    made.backward()
    assert torch.isfinite(made) and made.dtype == torch.float32 and torch.isfinite(z.grad).all()


@pytest.mark.parametrize("kind", LOSSES)
def test_a_mask_is_no_large_number(kind):
    """A classifier's products may lie below -100: a void pair must still count for less."""
    s = torch.full((1, 3), -500.0, dtype=torch.float64)
    s[0, 2] = 400.0 if kind != "kprob" else 0.9
    positive = torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64)
    void = torch.tensor([[False, False, True]])
    config = LossConfig(kind=kind, k=1)
    left = pool_loss(s[:, :2], positive[:, :2], config)
    assert pool_loss(s, positive, config, void).item() == pytest.approx(left.item(), rel=1e-9, abs=1e-12)


def test_weights_of_positives_weigh_their_terms():
    s = torch.tensor([[0.3, -0.2, 0.9]], dtype=torch.float64)
    both = pool_loss(s, torch.tensor([[1.0, 0.25, 0.0]]), LossConfig())
    each = [softplus(0.9 - 0.3), softplus(0.9 + 0.2)]
    assert both.item() == pytest.approx((each[0] + 0.25 * each[1]) / 1.25, rel=1e-6)


def test_one_label_is_drawn_and_all_have_a_chance():
    torch.manual_seed(0)
    positive = torch.tensor([[1.0, 0.0, 1.0, 1.0]] * 400)
    made = drawn(positive)
    assert (made.sum(1) == 1).all() and (made[:, 1] == 0).all()
    assert (made.sum(0)[[0, 2, 3]] > 90).all()


def test_nothing_to_learn_from_is_no_loss():
    for kind in LOSSES:
        z = torch.zeros(2, 3, requires_grad=True)
        made = pool_loss(
            z, torch.zeros(2, 3), LossConfig(kind=kind, symmetric=True), torch.ones(2, 3, dtype=torch.bool)
        )
        made.backward()
        assert made.item() == 0.0 and torch.isfinite(z.grad).all()
