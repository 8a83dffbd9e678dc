"""Integrated gradients: places and weights of the way, gradients of what lies behind an encoder, tokens of words."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from treetop.core.abilities import Gradient
from treetop.core.texts import Texts
from treetop.features import integrated
from treetop.features.encoder.tokens import Tokenizer
from treetop.features.encoder.transformer import Transformer, TransformerConfig
from treetop.features.pullback import affine, linear, normalised, scaled

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("n", [8, 16, 64])
def test_the_way_is_measured_exactly_for_polynomials_and_every_cut_goes_on(n):
    places = [integrated._alpha(place) for place in range(0, integrated.MOST + 1, integrated.MOST // n)]
    weights = integrated._weights(n)
    assert places[0] == 0 and places[-1] == pytest.approx(1) and weights.sum() == pytest.approx(1)
    for power in range(n):
        assert weights @ np.array(places) ** power == pytest.approx(1 / (power + 1), abs=1e-12)


@pytest.mark.parametrize(
    "made",
    [
        lambda w: linear(w[:4]),
        lambda w: normalised(linear(w[:4])),
        lambda w: scaled(normalised(linear(w[:4])), 0.3),
        lambda w: affine(normalised(linear(w[:3])), w[:12].reshape(3, 4), w[12:15], tanh=True),
        lambda w: affine(linear(w[:4]), None, None, tanh=True),
    ],
)
def test_gradients_are_those_of_small_differences(made):
    outer, H = made(RANDOM.normal(size=15)), RANDOM.normal(size=(3, 4))
    _, G = outer(H)
    for j in range(4):
        step = np.zeros(4)
        step[j] = 1e-5
        np.testing.assert_allclose((outer(H + step)[0] - outer(H - step)[0]) / 2e-5, G[:, j], atol=1e-6)


@pytest.mark.parametrize("long", ["truncate", "windows"])
def test_words_have_the_tokens_of_the_encoder_and_their_places(encoder, long):
    raw = (Path(encoder) / "tokenizer.json").read_bytes()
    tokenizer = Tokenizer(raw, 8, long)
    for text in ["Cats, dogs  and\thorses!", "", "   ", "İcat ÉÉ " * 9, "cat " * 6000]:
        tokens, word, spans = tokenizer.places(text)
        expected = tokenizer.encode(Texts.of([text]))
        assert np.array_equal(tokens.ids, expected.ids) and np.array_equal(tokens.offsets, expected.offsets)
        assert len(word) == len(tokens.ids) and word.max(initial=-1) == len(spans) - 1
        assert all(text[start:end].split() == [text[start:end]] for start, end in spans)
    _, word, spans = Tokenizer(raw, 32, long).places("Cats, dogs")
    assert spans == [(0, 4), (4, 5), (6, 10)] and word[0] == word[-1] == -1


@pytest.mark.parametrize("options", [{}, {"long_texts": "windows", "max_length": 8}, {"pooling": "cls", "l2": True}])
@pytest.mark.parametrize("packs", [True, False])
def test_words_sum_to_the_difference_from_hidden_words(encoder, options, packs):
    features = Transformer.load(TransformerConfig(model=encoder, **{"max_length": 32, **options}))
    features.encoder.packs = packs
    text, (pooling,) = "cat dog, horses and birds of stone", features.poolings
    view = features.view_name(pooling)
    H = features.views(Texts.of([text]))[view]
    gradients = [Gradient(RANDOM.normal(size=H.shape[1]).astype(np.float32), 0.0) for _ in range(3)]
    for shares, gradient in zip(features.shares(text, view, gradients), gradients, strict=True):
        value = float(H[0] @ gradient.weights)
        total, size = sum(s.amount for s in shares.words), sum(abs(s.amount) for s in shares.words)
        assert abs(total + shares.base - value) <= max(0.011 * abs(value - shares.base), 1e-3 * size)
        assert [text[a:b] for share in shares.words for a, b in share.spans] == [s.term for s in shares.words]
    hidden = features.shares("[MASK] " * len(shares.words), view, gradients)
    assert hidden is not None
    assert features.shares("", view, gradients)[0].words == []


def test_weights_ask_for_no_gradient_while_words_are_explained(encoder):
    """Threads that share a leaf of the graph waited for each other for ever, in one of some fifty explanations."""
    features = Transformer.load(TransformerConfig(model=encoder, max_length=32))
    (pooling,) = features.poolings
    weights = np.ones(features.encoder.view_width(pooling), np.float32)
    features.shares("cats and dogs", features.view_name(pooling), [Gradient(weights, 0.0)])
    assert not any(weight.requires_grad for weight in features.encoder.parameters())
