"""The learned pooling of windows: its slow twin, gradients, and models trained with it."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
import toy
import toy_encoder
import treetop
from treetop.core.errors import ConfigError, ModelError
from treetop.core.store import Part
from treetop.core.texts import Texts
from treetop.features.encoder.transformer import Transformer, TransformerConfig
from treetop.features.encoder.windows import WindowPool, averaged, pooled_slowly

LONG = Texts.of([" ".join(toy.WORDS[(i * j) % 18] for j in range(1, 4 + 5 * i)) for i in range(7)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.set_num_threads(1)
    return str(toy_encoder.write_encoder(tmp_path_factory.mktemp("toy") / "encoder"))


def drawn(counts, width=6, seed=0, scale=1.0):
    """A pool with random weights, windows of as many texts as there are counts, and their owners in random order."""
    rng = np.random.default_rng(seed)
    pool = WindowPool(width)
    pool.weight.data, pool.share.data = (torch.from_numpy(rng.normal(0, 3, width).astype(np.float32)) for _ in "ab")
    owner = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    vectors = (scale * rng.normal(0, 1, (len(owner), width))).astype(np.float32)
    return pool, torch.from_numpy(vectors), torch.from_numpy(owner)


def slow(pool, vectors, owner, rows):
    weight, share = pool.weight.detach().numpy(), pool.share.detach().numpy()
    return np.stack([pooled_slowly(vectors[owner == row].numpy(), weight, share) for row in range(rows)])


@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e15])
def test_pooling_is_that_of_its_slow_twin(scale):
    for seed in range(5):
        pool, vectors, owner = drawn([1, 4, 2, 9, 1], seed=seed, scale=scale)
        np.testing.assert_allclose(
            pool(vectors, owner, 5).detach(), slow(pool, vectors, owner, 5), rtol=1e-4, atol=1e-5 * scale
        )


def test_equal_and_empty_windows_and_windows_that_fill_up():
    pool, vectors, owner = drawn([2, 3])
    vectors[:] = vectors[0]
    torch.testing.assert_close(pool(vectors, owner, 2), vectors[:2])
    torch.testing.assert_close(pool(0 * vectors, owner, 2), torch.zeros(2, 6))
    assert pool(vectors[:0], owner[:0], 0).shape == (0, 6)
    pool, vectors, owner = drawn([2, 3, 4])
    np.testing.assert_allclose(pool(vectors, owner, 2).detach(), slow(pool, vectors, owner, 2), atol=1e-5)


def test_texts_of_one_window_keep_their_vector_and_untrained_weights_are_equal():
    pool, vectors, owner = drawn([1] * 6)
    torch.testing.assert_close(pool(vectors, owner, 6)[owner], vectors)
    pool, (_, vectors, owner) = WindowPool(6), drawn([3, 5])
    pool.share.data[:] = -50.0
    torch.testing.assert_close(pool(vectors, owner, 2), averaged(vectors, owner, 2))


def test_gradients_are_those_of_differences():
    pool, vectors, owner = drawn([3, 1, 4], width=3)

    def value(weight, share, vectors):
        return torch.func.functional_call(pool, {"weight": weight, "share": share}, (vectors, owner, 3))

    leaves = [tensor.detach().double().requires_grad_() for tensor in (pool.weight, pool.share, vectors)]
    assert torch.autograd.gradcheck(value, leaves, eps=1e-6)


def settings(folder, **more):
    encoder = {"model": folder, "max_length": 6, "long_texts": "windows", "max_windows": 3, "window_pooling": "learned"}
    return {"encoder": encoder | more.pop("encoder", {}), "train": {"epochs": 3.0, "batch_size": 16}, **more}


FORMS = {
    "renee": ("renee", {}),
    "lightxml, frozen": ("lightxml", {"frozen": True, "encoder": {"layers": [-1, 1]}}),
    "unidec, frozen": ("unidec", {"frozen": True, "pool": {"size": 24}}),
    "unidec": ("unidec", {"pool": {"size": 24}}),
}


def pools_of(model):
    item = model.features["encoder"]
    return (item if isinstance(item, Transformer) else item.transformer).window_pools


@pytest.mark.parametrize("form", FORMS)
def test_it_learns_with_any_head_and_is_saved(form, folder, tmp_path):
    recipe, more = FORMS[form]
    model = treetop.fit(recipe, toy.dataset(), settings=settings(folder, **more), device="cpu", out=tmp_path / "m")
    [pool] = pools_of(model).values()
    assert float(pool.weight.detach().abs().max()) > 1e-3 and float(pool.share.detach().std()) > 1e-4
    again = treetop.load(tmp_path / "m", check="full").rank(LONG, 5)
    one, two = model.rank(LONG, 5), again
    assert np.array_equal(one.ids, two.ids) and np.array_equal(one.score, two.score)
    quick = model.fast().rank(LONG, 5)
    np.testing.assert_allclose(np.sort(quick.score), np.sort(one.score), atol=0.1)


@pytest.mark.parametrize("form", ["cascadexml", "xr_transformer"])
def test_every_view_and_level_learns_its_own(form, folder):
    from network_forms import settings_of

    recipe, given = settings_of(form, folder, {"epochs": 1.0, "batch_size": 16})
    given["encoder"] = settings(folder)["encoder"]
    if recipe == "cascadexml":
        given["layers"] = [[1], [2], [2]]
    model = treetop.fit(recipe, toy.dataset(), settings=given, device="cpu")
    for item in model.features.values():
        for transformer in [item] if isinstance(item, Transformer) else item.transformers:
            assert transformer.window_pools.keys() >= {pooling.name for pooling in transformer.poolings}
            assert all(float(pool.weight.detach().abs().max()) > 0 for pool in transformer.window_pools.values())


def test_views_are_pooled_windows_also_of_one_text(folder):
    config = TransformerConfig(
        model=folder, max_length=6, long_texts="windows", max_windows=4, window_pooling="learned", l2=True
    )
    features = Transformer.load(config)
    pool = features.window_pools["mean:-1"]
    pool.weight.data.normal_(0, 3)
    pool.share.data.normal_()
    tokens = features.tokenizer.encode(LONG)
    windows = features.encoder, features.tokenizer
    view = features.views(LONG)["encoder/mean:-1"]
    plain = Transformer(*windows, features.poolings)  # windows one by one, not pooled
    vectors = plain.vectors(type(tokens)(tokens.ids, tokens.offsets))["encoder/mean:-1"]
    weight, share = pool.weight.detach().numpy(), pool.share.detach().numpy()
    for row in range(len(LONG)):
        expected = pooled_slowly(vectors[tokens.rows[row] : tokens.rows[row + 1]], weight, share)
        np.testing.assert_allclose(view[row], expected / np.linalg.norm(expected), atol=1e-4)
        np.testing.assert_allclose(features.views(LONG[row : row + 1])["encoder/mean:-1"][0], view[row], atol=1e-4)


def test_wrong_settings_and_damaged_models_are_refused(folder):
    with pytest.raises(ConfigError, match="window_pooling: 'learned' needs windows. Set long_texts=windows"):
        TransformerConfig(window_pooling="learned")
    config = TransformerConfig(model=folder, max_length=6, long_texts="windows", window_pooling="learned")
    part = Transformer.load(config).to_part()
    assert part.config["long"] == "learned windows"  # which earlier versions refuse rather than average
    for name in ("windows.mean:-1.weight", "windows.mean:-1.share"):
        missing = {key: array for key, array in part.arrays.items() if key != name}
        with pytest.raises(ModelError, match=f"array '{name}' is missing"):
            Transformer.from_part(Part(part.kind, part.config, missing, files=part.files))
        broken = dict(part.arrays) | {name: np.full(32, np.nan, np.float32)}
        with pytest.raises(ModelError, match=name):
            Transformer.from_part(Part(part.kind, part.config, broken, files=part.files))
