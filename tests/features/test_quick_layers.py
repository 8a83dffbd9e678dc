import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
import toy_encoder
from treetop.core.texts import Texts
from treetop.features.encoder import packed_linear, quick_layers
from treetop.features.encoder.quick_layers import QuickLayers
from treetop.features.encoder.transformer import Transformer, TransformerConfig

TEXTS = Texts.of(["a", "the small cat sat", "", "dogs and cats and birds " * 5, "the"])


def read(folder, **changes):
    folder = toy_encoder.write_encoder(folder, **changes)
    return Transformer.load(TransformerConfig(model=str(folder), max_length=32, layers=(0, 1, -1)))


def vectors(transformer):
    return next(iter(transformer.vectors(transformer.tokenizer.encode(TEXTS)).values()))


def by_modules(transformer, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(transformer.encoder, "_quick", None)
        return vectors(transformer)


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_states_are_those_of_the_modules(tmp_path, kind, monkeypatch):
    transformer = read(tmp_path, kind=kind)
    found = vectors(transformer)
    assert (transformer.encoder._quick is not None) == packed_linear.available()
    np.testing.assert_allclose(found, by_modules(transformer, monkeypatch), atol=1e-5)
    one = [next(iter(transformer.views(TEXTS.take(np.array([i]))).values())) for i in range(len(TEXTS))]
    np.testing.assert_allclose(np.concatenate(one), found, atol=1e-5)


def test_changed_weights_are_laid_out_anew(tmp_path, monkeypatch):
    transformer = read(tmp_path)
    before = vectors(transformer)
    with torch.no_grad():
        for weight in transformer.encoder.body.parameters():
            weight.mul_(1.5)  # in place, as an optimiser does
    after = vectors(transformer)
    np.testing.assert_allclose(after, by_modules(transformer, monkeypatch), atol=1e-5)
    assert not np.allclose(after, before)


@pytest.mark.parametrize("changes", [{"kind": "distilbert"}, {"hidden_act": "relu"}, {"kind": "electra"}])
def test_other_encoders_keep_their_modules(tmp_path, changes):
    transformer = read(tmp_path, **changes)
    assert np.isfinite(vectors(transformer)).all()
    if changes.get("kind") != "electra":  # which has BERT's shape
        assert transformer.encoder._quick is None


def test_layers_that_give_something_else_are_not_used(tmp_path, monkeypatch):
    transformer = read(tmp_path)
    monkeypatch.setattr(quick_layers, "attend_plain", lambda q, k, v, starts, scale: 0 * q)
    assert QuickLayers.of(transformer.encoder) is None
