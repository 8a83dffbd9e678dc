"""A damaged or hostile encoder folder is refused in one sentence, before anything hangs or takes memory."""

import json
import os
import shutil

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from safetensors.numpy import load_file, save_file

import toy
from treetop.core.errors import ModelError, TreetopError
from treetop.core.store import read_part, write_manifest, write_part
from treetop.features.encoder.sources import find_encoder, local_config
from treetop.features.encoder.transformer import Transformer, TransformerConfig


@pytest.fixture
def folder(encoder, tmp_path):
    return shutil.copytree(encoder, tmp_path / "encoder")


def set_config(folder, **changes):
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def set_weights(folder, change):
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors")


def refused(folder, message):
    with pytest.raises(TreetopError, match=rf"^encoder: .*{message}") as caught:
        Transformer.load(TransformerConfig(model=str(folder), max_length=16))
    assert "trust_remote_code" not in str(caught.value) and len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "evil"}, "unknown model type 'evil'; code that comes with an encoder is never run"),
        ({"model_type": ["bert"]}, "unknown model type"),
        ({"model_type": "evil", "auto_map": {"AutoModel": "x.Evil"}}, "unknown model type 'evil'"),
        ({"hidden_size": "wide"}, "cannot be used"),
        ({"num_attention_heads": 0}, "cannot be used"),
        ({"num_hidden_layers": 10**9}, "its settings say num_hidden_layers = 1000000000, at most"),
        ({"num_hidden_layers": 3}, "weights '.*layer.2.* are missing or of the wrong shape"),
        ({"max_position_embeddings": 10**12}, "its settings say max_position_embeddings = 1000000000000"),
        ({"hidden_size": 2**20}, "its settings ask for [0-9,]+ weights, but its files hold"),
        ({"intermediate_size": 65}, "weights '.*' are missing or of the wrong shape"),
        ({"quantization_config": {"quant_method": "bitsandbytes"}}, "its weights are quantised"),
    ],
)
def test_settings_that_do_not_fit_are_refused(folder, changes, message):
    set_config(folder, **changes)
    refused(folder, message)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_random_bytes_are_refused(folder, name):
    (folder / name).write_bytes(np.random.default_rng(0).bytes(3000))
    with pytest.raises(ModelError, match=r"cannot be read"):
        Transformer.load(TransformerConfig(model=str(folder), max_length=16))


def test_deep_settings_are_refused_and_not_counted(folder):
    (folder / "config.json").write_text('{"a":' * 100_000 + "1" + "}" * 100_000)
    refused(folder, "config.json cannot be read .too deeply nested")
    assert local_config(str(folder)) == {}
    nested = {"model_type": "bert"}
    for _ in range(50):
        nested = {"model_type": "bert", "inner": nested}
    (folder / "config.json").write_text(json.dumps(nested))
    refused(folder, "nested deeper than 16 levels")


def test_a_forecast_refuses_them_too(folder):
    from treetop.training import plan

    (folder / "config.json").write_text('{"a":' * 100_000 + "1" + "}" * 100_000)
    with pytest.raises(ModelError, match="too deeply nested"):
        plan("lightxml", settings={"encoder": {"model": str(folder)}}).forecast(toy.dataset())


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_refused_from_folders_and_models(folder, tmp_path, value):
    part = Transformer.load(TransformerConfig(model=str(folder), max_length=16)).to_part()
    name = "encoder.layer.1.output.dense.bias"

    def spoil(weights):
        weights[name] = np.array(weights[name])
        weights[name][3] = value

    set_weights(folder, spoil)
    refused(folder, f"weights '{name}' of .* are not finite")
    arrays = dict(part.arrays)
    spoil(arrays)
    write_part(tmp_path / "part", type(part)(part.kind, part.config, arrays, files=part.files))
    write_manifest(tmp_path / "part", {})
    with pytest.raises(ModelError, match=rf"weights '{name}' .* not finite"):
        Transformer.from_part(read_part(tmp_path / "part"))


def test_weights_too_large_to_compute_with_are_refused(folder):
    set_weights(folder, lambda weights: weights.update({k: np.full_like(w, 3e38) for k, w in weights.items()}))
    refused(folder, "the vectors it gives are not finite")


def test_missing_weights_are_not_drawn_at_random(folder):
    set_weights(folder, lambda weights: weights.pop("encoder.layer.1.output.dense.weight"))
    refused(folder, "weights 'encoder.layer.1.output.dense.weight' are missing")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors", "model.safetensors.index.json"])
def test_a_pipe_is_not_waited_for_and_a_link_to_a_file_is_followed(folder, tmp_path, name):
    file = folder / name
    if file.exists():
        file.rename(tmp_path / "moved")
        file.symlink_to(tmp_path / "moved")
        assert find_encoder(str(folder)).weights
        file.unlink()
    os.mkfifo(file)
    refused(folder, f"{name} is not a regular file")
    assert name != "config.json" or local_config(str(folder)) == {}


def test_an_adapter_is_not_followed(folder):
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "nobody/evil"}')
    refused(folder, "holds an adapter")
