"""XML-CNN's and AttentionXML's networks against twins of plain loops; padding and batches change nothing."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from treetop.core.errors import ConfigError
from treetop.features.words.cnn import VIEW, Cnn, CnnConfig
from treetop.features.words.lstm import STATES, Lstm, LstmConfig
from treetop.tensors.packed import TokenRows

WORDS, WIDTH, LENGTH = 20, 5, 9
TEXTS = [[3, 1, 4, 1, 5, 9, 2], [], [7], [6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6], [2, 7]]


def network(build, config, seed=0):
    torch.manual_seed(seed)
    made = build(config, WORDS, WIDTH, LENGTH)
    made.init_words(torch.randn(WORDS, WIDTH))
    with torch.no_grad():
        for name, weight in made.named_parameters():
            if name != "words":
                weight.copy_(torch.randn_like(weight))
    return made.eval()


def packed(texts):
    ends = np.concatenate([[0], np.cumsum([len(text) for text in texts])])
    ids = np.array([word for text in texts for word in text], np.int32)
    return TokenRows(ids, ends, torch.device("cpu")).gather(np.arange(len(texts)))


def slow_cnn(net, text):
    config, words = net.config, net.words.detach().numpy()
    text = text[:LENGTH]
    if not config.windows:
        pooled = words[text].mean(0) if text else np.zeros(WIDTH)
    else:
        pooled = []
        for convolution in net.convolutions:
            kernel, bias = convolution.weight.detach().numpy(), convolution.bias.detach().numpy()
            best = np.zeros((config.parts, config.filters))
            for place in range(len(text)):
                response = bias.copy()
                for tap in range(kernel.shape[2]):
                    if place + tap < len(text):
                        response += kernel[:, :, tap] @ words[text[place + tap]]
                part = place * config.parts // len(text)
                best[part] = np.maximum(best[part], response)
            pooled.extend(best)
        pooled = np.concatenate(pooled)
    if net.hidden is None:
        return pooled
    return np.maximum(net.hidden.weight.detach().numpy() @ pooled + net.hidden.bias.detach().numpy(), 0)


def slow_lstm(net, text):
    words, text = net.words.detach().numpy(), text[:LENGTH]
    n, states = net.config.hidden, np.zeros((len(text), net.width))
    sigmoid = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
    for d, order in enumerate((range(len(text)), reversed(range(len(text))))):
        cell = net.directions[d]
        W, U = cell.weight_ih_l0.detach().numpy(), cell.weight_hh_l0.detach().numpy()
        b = (cell.bias_ih_l0 + cell.bias_hh_l0).detach().numpy()
        h, c = net.start.detach().numpy()[d]
        for place in order:
            i, f, g, o = np.split(W @ words[text[place]] + U @ h + b, 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            states[place, d * n : (d + 1) * n] = h
    return states


@pytest.mark.parametrize("changes", [{}, {"parts": 3, "hidden": 0}, {"windows": (1,), "parts": 1}, {"windows": ()}])
def test_convolutions_are_those_of_plain_loops(changes):
    net = network(Cnn, CnnConfig(**{"filters": 4, "hidden": 6, **changes}))
    expected = np.array([slow_cnn(net, text) for text in TEXTS])
    with torch.no_grad():
        found = net(packed(TEXTS), [VIEW])["document"].numpy()
        alone = [net(packed([text]), [VIEW])["document"].numpy()[0] for text in TEXTS]
    assert found.shape[1] == net.view_width(VIEW)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    np.testing.assert_allclose(alone, expected, atol=1e-4)


def test_states_are_those_of_a_cell_that_goes_word_by_word():
    net = network(Lstm, LstmConfig(hidden=4))
    with torch.no_grad():
        found = net(packed(TEXTS), [STATES])["states"]
        alone = [net(packed([text]), [STATES])["states"] for text in TEXTS]
    for row, text in enumerate(TEXTS):
        expected, n = slow_lstm(net, text), min(len(text), LENGTH)
        assert found.there[row].sum() == n and not found.states[row, n:].any()
        np.testing.assert_allclose(found.states[row, :n].numpy(), expected, atol=1e-5)
        np.testing.assert_allclose(alone[row].states[0, :n].numpy(), expected, atol=1e-5)


def test_windows_out_of_range_are_refused():
    with pytest.raises(ConfigError, match=r"windows: 65 is out of range. Allowed: 1 to 64 words."):
        CnnConfig(windows=(2, 65))
