"""Layers in ONNX Runtime give the states of the modules: in float32 the same, with int8 products nearly."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("onnxruntime")

from toy_encoder import write_encoder
from treetop.core.texts import Texts
from treetop.features.encoder.runtime_layers import RuntimeLayers, alike
from treetop.features.encoder.transformer import Transformer, TransformerConfig
from treetop.tensors.packed import TokenRows

TEXTS = Texts.of(["a cat", "", "dogs and horses by the river", "stone " * 20, "a lamp of glass", "bread"])


def loaded(encoder, **settings):
    return Transformer.load(TransformerConfig(model=encoder, max_length=16, **settings))


def cosines(one, other):
    return (one * other).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)


def test_states_are_those_of_the_modules(encoder):
    transformer = loaded(encoder)
    tokens = transformer.tokenizer.encode(TEXTS)
    packed = TokenRows(tokens.ids, tokens.offsets, torch.device("cpu")).gather(np.arange(len(TEXTS)))
    with torch.inference_mode():
        expected = transformer.encoder.module_states(packed, [0, 1, 2])
        plain = RuntimeLayers(transformer.encoder, int8=False).states(packed, [0, 1, 2])
        quick = RuntimeLayers(transformer.encoder).states(packed, [0, 2])
    for layer in (0, 1, 2):
        np.testing.assert_allclose(plain[layer], expected[layer], atol=1e-4)
    assert list(quick) == [0, 2] and torch.equal(quick[0], plain[0])
    assert cosines(quick[2].numpy(), expected[2].numpy()).min() > 0.99


@pytest.mark.parametrize("settings", [{}, {"pooling": "cls", "layers": (-1, 0)}, {"long_texts": "windows"}])
def test_the_fast_form_answers_nearly_the_same(encoder, settings):
    transformer = loaded(encoder, **settings)
    quick, name = transformer.fast(), transformer.view_name(transformer.poolings[0])
    expected, found = transformer.views(TEXTS)[name], quick.views(TEXTS)[name]
    assert cosines(found, expected).min() > 0.99 and not np.array_equal(found, expected)
    again = transformer.views(TEXTS)[name]
    assert np.array_equal(again, expected)  # the model it came from is as it was
    alone = np.vstack([quick.views(TEXTS.span(i, i + 1))[name] for i in range(len(TEXTS))])
    np.testing.assert_allclose(alone, found, atol=1e-5)  # whatever stands beside a text
    assert quick.views(Texts.of([]))[name].shape == (0, expected.shape[1])


def test_other_architectures_stay_as_they_are(tmp_path):
    other = write_encoder(tmp_path / "distil", kind="distilbert", dim=32, n_layers=2, n_heads=2, hidden_dim=64)
    transformer = loaded(str(other))
    assert transformer.fast() is transformer


def test_sequences_of_like_length_run_together():
    assert alike(np.array([3, 4, 5, 30, 40, 100])) == [(0, 3), (3, 5), (5, 6)]
    assert alike(np.array([7])) == [(0, 1)] and alike(np.zeros(0, np.int64)) == []
