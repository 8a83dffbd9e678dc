import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
import toy
import toy_encoder
from treetop.core.errors import ModelError
from treetop.features.encoder.towers import Tower, Towers
from treetop.features.encoder.transformer import Transformer, TransformerConfig
from treetop.network.pool_heads import ClassifierConfig, DualConfig, FreeHead, TextHead
from treetop.network.projection import TowerProjection


@pytest.fixture(scope="module")
def transformer(tmp_path_factory):
    torch.set_num_threads(1)
    folder = toy_encoder.write_encoder(tmp_path_factory.mktemp("toy") / "encoder")
    return Transformer.load(TransformerConfig(model=str(folder), max_length=32))


def towers(transformer):
    torch.manual_seed(0)
    dual = TextHead(DualConfig(projection_dim=8, projection_init="xavier", dropout=0.5), 32)
    own = FreeHead(ClassifierConfig(dropout=0.5), 32)
    for head in (dual, own):
        head.projection.eval()
    made = [dual.tower(unit=True, factor=3.0), own.tower(unit=False, factor=0.5)]
    return Towers(transformer, made), dual, own


def test_views_equal_the_heads_in_training(transformer):
    made, dual, own = towers(transformer)
    texts = toy.dataset().texts
    base = torch.from_numpy(next(iter(transformer.views(texts).values())))
    views = made.views(texts)
    with torch.no_grad():
        first, second = dual.vectors(base).numpy(), own.vectors(base).numpy()
    np.testing.assert_allclose(views["encoder/dual"], first, atol=1e-6)
    np.testing.assert_allclose(views["encoder/classifier"], second, atol=1e-6)
    joined = np.hstack([3 * first, 0.5 * second])
    np.testing.assert_allclose(views["encoder/search"], joined, atol=1e-5)


@pytest.mark.parametrize(("dimension", "first"), [(32, "identity"), (40, "identity"), (16, "identity"), (16, "xavier")])
def test_where_a_layer_starts(dimension, first):
    torch.manual_seed(0)
    head = TowerProjection(32, dimension, tanh=False, init=first, dropout=0.0)
    x = torch.randn(3, 32)
    made = head(x)
    if first == "identity" and dimension >= 32:
        assert torch.equal(made[:, :32], x) and not made[:, 32:].any()
    elif first == "identity":  # directions that stand upright on each other
        torch.testing.assert_close(head.layer.weight @ head.layer.weight.T, torch.eye(16), atol=1e-5, rtol=0)
    else:
        assert head.layer.weight.abs().max() <= (6 / 48) ** 0.5


def test_saved_and_damaged_and_an_encoder_for_others(transformer, tmp_path):
    made, *_ = towers(transformer)
    part = made.to_part()
    again = Towers.from_part(part)
    texts = toy.dataset().texts
    assert np.array_equal(made.views(texts)["encoder/search"], again.views(texts)["encoder/search"])
    kind = type(part)
    for config in ({"towers": [{"name": "dual"}]}, {"towers": "dual"}):
        with pytest.raises(ModelError):
            Towers.from_part(kind(part.kind, config, part.arrays, part.parts))
    arrays = {**part.arrays, "dual.weight": part.arrays["dual.weight"][:, :5].copy()}
    with pytest.raises(ModelError):
        Towers.from_part(kind(part.kind, part.config, arrays, part.parts))


def test_an_empty_vector_stays_empty():
    assert Tower("dual").vectors(np.zeros((1, 3), np.float32)).tolist() == [[0, 0, 0]]
