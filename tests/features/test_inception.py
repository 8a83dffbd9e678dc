"""The network against plain loops in numpy, and what training needs of it."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from treetop.core.errors import ConfigError
from treetop.features.words.inception import TASKS, Inception, InceptionConfig
from treetop.features.words.layers import BatchNorm, Spectral
from treetop.tensors.packed import TokenRows

N_WORDS, WIDTH, LENGTH, FILTERS = 30, 96, 6, 5
TEXTS = [[3, 7, 7, 1], [], [29], [5, 4, 3, 2, 1, 0, 9, 8], [11, 12, 13]]


def packed(texts=TEXTS):
    ids = np.array([word for text in texts for word in text], np.int64)
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in texts])])
    return TokenRows(ids, offsets, torch.device("cpu")).gather(np.arange(len(texts)))


def network(combine="routed", seed=0, **changes):
    torch.manual_seed(seed)
    net = Inception(InceptionConfig(filters=FILTERS, combine=combine, **changes), N_WORDS, WIDTH, LENGTH)
    with torch.no_grad():
        for name, weight in net.named_parameters():  # nothing at a value that would hide a mistake
            weight.add_(0.05 * torch.randn(weight.shape) if name != "words" else 0.0)
        net.init_words(0.3 * torch.randn(N_WORDS, WIDTH))
        net.scales.copy_(torch.tensor([0.3, -0.2]))
        for module in net.modules():
            if isinstance(module, BatchNorm):
                module.centre.normal_()
                module.spread.uniform_(0.5, 2.0)
            if isinstance(module, Spectral):
                for _ in range(300):
                    module.normal()
    return net.eval()


def gelu(x):
    return x * 0.5 * (1.0 + np.vectorize(math.erf)(x / math.sqrt(2.0)))


def slow_norm(x, module):  # (channels, places)
    centre, spread, weight, bias = (
        t.detach().numpy()[:, None] for t in (module.centre, module.spread, module.weight, module.bias)
    )
    return (x - centre) / np.sqrt(spread + 1e-5) * weight + bias


def slow_conv(x, conv, *, ring):
    """Conv1d along the last axis, step by step; `ring`: the axis goes round, so that every kernel gives a quarter."""
    W, b = conv.weight.detach().numpy(), conv.bias.detach().numpy()
    size, n = W.shape[2], x.shape[1]
    edge = (size - 4) // 2 if ring else 0
    count = n // 4 if ring else (n - size) // 4 + 1
    made = np.zeros((len(W), count))
    for j in range(count):
        for i in range(size):
            made[:, j] += W[:, :, i] @ x[:, (4 * j - edge + i) % n]
    return made + b[:, None]


def spectral(module):
    W = module.weight.detach().numpy().astype(np.float64)
    return W / np.linalg.norm(W, 2)


def slow(net, text):
    """One text, padded to the full length, as the paper writes it: channels first."""
    x = np.zeros((LENGTH, WIDTH))
    for t, word in enumerate(text[:LENGTH]):
        x[t] = net.words.detach().numpy()[word]
    g = net.scales.detach().numpy()
    if net.config.attention:
        a = g[0] * (x @ x.T) @ (spectral(net.look_words) @ x) + x
        A, B = a.T, x.T
        x = (g[1] * (A @ B.T) @ (spectral(net.look_width) @ A) + A).T
    y = net.project.weight.detach().numpy() @ x + net.project.bias.detach().numpy()[:, None]
    y = slow_norm(gelu(y), net.project_norm)
    parts = [slow_conv(y, conv, ring=True) for conv in net.experts]
    if net.route is None:
        z = np.concatenate(parts)
    else:
        logits = net.route.weight.detach().numpy() @ y.mean(1) + net.route.bias.detach().numpy()
        share = np.exp(logits) / np.exp(logits).sum()
        pooled = y.reshape(FILTERS, WIDTH // 4, 4).mean(2)
        z = sum(s * part for s, part in zip(share, [*parts, pooled], strict=True))
    z = slow_norm(gelu(z), net.norm)
    made = {}
    for t, task in enumerate(TASKS):
        s = min(t, len(net.second) - 1)
        y = slow_norm(gelu(slow_conv(z, net.second[s], ring=False)), net.second_norms[s])
        h, kept = y.T.ravel(), y.T.ravel()
        if (
            net.config.reduce_to_word_dim
        ):  # of the filters one after the other, every number the mean of those it stands for
            flat, n = y.ravel(), y.size
            kept = np.array([flat[i * n // WIDTH : -(-(i + 1) * n // WIDTH)].mean() for i in range(WIDTH)])
        made[task.name] = kept + gelu(spectral(net.last[t]) @ h + net.last[t].bias.detach().numpy())
    return made


@pytest.mark.parametrize("changes", [{}, {"combine": "concat"}, {"attention": False}, {"reduce_to_word_dim": True}])
def test_views_equal_plain_loops(changes):
    net = network(**changes)
    with torch.no_grad():
        views = net(packed(), TASKS)
    for row, text in enumerate(TEXTS):
        for name, expected in slow(net, text).items():
            np.testing.assert_allclose(views[name][row].numpy(), expected, atol=2e-4, rtol=1e-3)
    assert views["meta"].shape == (len(TEXTS), net.width)
    assert not np.allclose(views["meta"], views["extreme"])


def test_shape_of_the_paper():
    net = Inception(InceptionConfig(combine="concat"), 3, 300, 32)
    assert (net.width, net.positions, net.second[0].weight.shape) == (480, 15, (32, 96, 16))
    with pytest.raises(ConfigError, match="word vectors of dimension 50"):
        Inception(InceptionConfig(), 3, 50, 32)


@pytest.mark.parametrize("mix", ["routed", "concat"])
def test_laid_out_weights_and_batch_mates_change_nothing(mix):
    net = network(mix)
    with torch.inference_mode():
        plain = net(packed(), TASKS)
        net.lay_out()
        quick = net(packed(), TASKS)
        alone = [net(packed([text]), TASKS) for text in TEXTS]
    for task in TASKS:
        assert torch.equal(plain[task.name], quick[task.name])
        one = torch.cat([found[task.name] for found in alone])
        torch.testing.assert_close(one, quick[task.name], atol=1e-5, rtol=1e-4)


def test_weights_laid_out_do_not_outlive_a_move():
    net = network("routed")
    with torch.inference_mode():
        net.lay_out()
        there = net.double()(packed(), TASKS)["meta"]  # as a move to another device
    assert there.dtype == torch.float64
    torch.testing.assert_close(there.float(), network("routed")(packed(), TASKS)["meta"], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("mix", ["routed", "concat"])
def test_gradients_reach_every_weight(mix):
    net = network(mix).train()
    sum((view * torch.randn(view.shape)).sum() for view in net(packed(), TASKS).values()).backward()
    for name, weight in net.named_parameters():
        assert weight.grad is not None and weight.grad.abs().sum() > 0, name
    assert torch.equal(net.words.grad[-1], torch.zeros(WIDTH))  # padding learns nothing
    assert net.words.grad[29].abs().sum() > 0 and net.words.grad[20].abs().sum() == 0


def test_gradient_equals_differences():
    net = network(dropout=0.0)
    weight = torch.randn(len(TEXTS), net.width)

    def value():
        return (net(packed(), TASKS)["extreme"] * weight).sum()

    value().backward()
    for name in ("words", "scales", "project.weight", "experts.1.weight", "route.weight", "second.1.weight"):
        held = net.get_parameter(name)
        place = tuple((held.grad.abs() == held.grad.abs().max()).nonzero()[0])
        with torch.no_grad():
            held[place] += 1e-2
            above = value()
            held[place] -= 2e-2
            below = value()
            held[place] += 1e-2
        assert float(above - below) / 2e-2 == pytest.approx(float(held.grad[place]), rel=0.05), name


def test_a_detached_view_does_not_teach_what_views_share():
    net = network().train()
    net(packed(), TASKS, {"extreme"})["extreme"].sum().backward()
    assert net.words.grad is None and net.project.weight.grad is None
    assert net.second[1].weight.grad is not None and net.last[1].weight.grad is not None
    net(packed(), TASKS, {"extreme"})["meta"].sum().backward()
    assert net.words.grad is not None


def test_batch_norm_is_that_of_torch():
    x = torch.randn(7, 9, FILTERS)
    ours, theirs = BatchNorm(FILTERS), torch.nn.BatchNorm1d(FILTERS)
    for _ in range(2):
        torch.testing.assert_close(ours(x), theirs(x.mT).mT)
        ours.eval(), theirs.eval()
    torch.testing.assert_close(ours.centre, theirs.running_mean)
    alone = ours.train()(torch.ones(1, 1, FILTERS))  # one value has no spread: what is known counts
    assert torch.isfinite(alone).all()


def test_spectral_norm_follows_the_largest_singular_value():
    torch.manual_seed(0)
    module = Spectral(12, 8)
    for _ in range(100):
        module.normal()
    assert float(torch.linalg.matrix_norm(module.normal().detach(), 2)) == pytest.approx(1.0, abs=1e-4)
    held = module.u.clone()
    module.eval().normal()
    assert torch.equal(held, module.u)
