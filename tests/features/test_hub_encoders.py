"""Encoders of a hub on this machine: a name stands for one commit, and a model keeps which."""

import json
import logging
from pathlib import Path

import pytest

import toy
import toy_encoder
import treetop
from toy_hub import Hub, sha
from treetop.core.errors import ConfigError, ModelError
from treetop.core.store import read_part
from treetop.features.encoder import sources
from treetop.features.encoder.sources import find_encoder, local_config, pinned

NAME = "someone/encoder"
FIRST, SECOND = (f"{NAME}@{sha(NAME, number)}" for number in range(2))


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A hub with two commits of an encoder, and an empty cache."""
    pytest.importorskip("torch")
    constants = pytest.importorskip("huggingface_hub.constants")
    made = Hub()
    folders = [toy_encoder.write_encoder(tmp_path / f"commit {seed}", seed=seed) for seed in (1, 2)]
    made.repositories[NAME] = [{f.name: f.read_bytes() for f in folder.iterdir()} for folder in folders]
    monkeypatch.setenv("HF_ENDPOINT", made.address)
    for name, value in {"HF_HUB_OFFLINE": False, "HF_HUB_DISABLE_XET": True}.items():
        monkeypatch.setattr(constants, name, value)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    sources._at_commit.cache_clear()
    yield made
    sources._at_commit.cache_clear()
    made.close()


def first_of(name):
    return find_encoder(name).weights["embeddings.word_embeddings.weight"][0, 0]


def test_a_name_stands_for_the_commit_of_the_moment(hub):
    assert pinned(NAME) == SECOND == pinned(SECOND)
    assert pinned(f"{NAME}@main") == SECOND and pinned(FIRST) == FIRST
    assert find_encoder(NAME).name == SECOND
    assert first_of(FIRST) != first_of(NAME) == first_of(SECOND)
    assert local_config(FIRST)["hidden_size"] == 32


def test_names_that_no_hub_is_asked_for_stay(hub, encoder, tmp_path):
    (tmp_path / "words.txt").touch()
    for name in (encoder, str(tmp_path / "words.txt"), "", "../x", "nobody/nothing"):
        assert pinned(name) == name
    assert all(path == "/" or "nobody/nothing" in path for path in hub.asked)


def test_a_model_keeps_the_commit_it_was_trained_with(hub, tmp_path, caplog):
    quick = {"encoder": {"model": NAME, "max_length": 16}}
    with caplog.at_level(logging.INFO, logger="treetop"):
        treetop.fit("sentence_neighbours", toy.dataset(), settings=quick, calibrate=False, out=tmp_path / "model")
    assert f"encoder {NAME}: it is {SECOND} now; the model's settings keep this" in caplog.text
    manifest = json.loads((tmp_path / "model" / "manifest.json").read_bytes())
    assert manifest["config"]["encoder"]["model"] == SECOND
    assert SECOND in (tmp_path / "model" / "README.md").read_text()
    kept = read_part(tmp_path / "model").parts["features"].parts["encoder"]
    assert kept.config["source"] == SECOND
    assert find_encoder(str(tmp_path / "model")).commit == SECOND  # and so does what is trained from it
    hub.repositories[NAME].append(hub.repositories[NAME][0])  # its owner publishes another
    sources._at_commit.cache_clear()
    assert pinned(NAME) != SECOND
    again = treetop.fit("sentence_neighbours", toy.dataset(), settings=manifest["config"], calibrate=False)
    model = treetop.load(tmp_path / "model")
    assert again.predict("cat and dogs", k=3) == model.predict("cat and dogs", k=3)


def test_what_was_downloaded_does_without_the_hub(hub, monkeypatch):
    expected = first_of(NAME)
    sources._at_commit.cache_clear()
    hub.close()
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert pinned(NAME) == SECOND
    assert first_of(NAME) == first_of(SECOND) == expected
    with pytest.raises(ConfigError, match="could not be downloaded"):
        find_encoder(FIRST)


def test_only_data_is_downloaded_and_pickles_are_refused(hub):
    files = hub.repositories[NAME][1]
    files |= {"modeling.py": b"raise SystemExit", "pytorch_model.bin": b"cposix\nsystem\n", "tokenizer.py": b""}
    find_encoder(NAME)
    fetched = {Path(path).name for path in hub.asked if "/resolve/" in path}
    assert fetched == {"config.json", "tokenizer.json", "model.safetensors"}
    del files["model.safetensors"]
    hub.repositories[NAME].append(dict(files))
    sources._at_commit.cache_clear()
    with pytest.raises(ConfigError, match="pickled weights can run code and are never opened"):
        find_encoder(NAME)


def test_settings_of_a_hub_that_name_code_are_refused(hub):
    config = json.loads(hub.repositories[NAME][1]["config.json"])
    config |= {"model_type": "theirs", "auto_map": {"AutoModel": "modeling.Theirs"}}
    hub.repositories[NAME].append({**hub.repositories[NAME][1], "config.json": json.dumps(config).encode()})
    with pytest.raises(ModelError, match="code that comes with an encoder is never run"):
        find_encoder(NAME)
