"""Models pushed to and pulled from a hub on this machine."""

import json
import os
import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest

import treetop
from toy_hub import TOKEN, Hub
from treetop.core.errors import ConfigError, InputError, ModelError, ResourceError, WorkError
from treetop.hub import pull, push

NAME = "me/animals"
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # of the client's own upload


@pytest.fixture
def hub(monkeypatch):
    constants = pytest.importorskip("huggingface_hub.constants")
    made = Hub()
    monkeypatch.setenv("HF_ENDPOINT", made.address)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    for name, value in {"HF_HUB_OFFLINE": False, "HF_HUB_DISABLE_XET": True}.items():
        monkeypatch.setattr(constants, name, value)
    yield made
    made.close()


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    texts = ["a small domestic cat", "a large wild cat", "a domestic dog", "a wolf in the forest"]
    labels = [["animal", "cat", "pet"], ["animal", "cat"], ["animal", "dog", "pet"], ["animal", "wild"]]
    folder = tmp_path_factory.mktemp("hub") / "model"
    treetop.fit("xr_linear", texts, labels, calibrate=False).save(folder)
    return folder


@pytest.fixture
def pushed(hub, model):
    push(model, NAME)
    return hub


def same(one: Path, other: Path) -> bool:
    """Whether two folders hold the same model; what tells of the machine, and locks, do not count."""

    def files(folder):
        kept = [p for p in folder.rglob("*") if p.is_file() and p.name not in {"run.json", ".lock"}]
        return {p.relative_to(folder).as_posix(): p.read_bytes() for p in kept}

    return files(one) == files(other)


def test_import_treetop_is_enough_and_loads_no_client():
    code = (
        "import sys, treetop; before = {'treetop.hub', 'huggingface_hub'} & {*sys.modules}; treetop.hub.push; "
        "treetop.hub.pull; print(before, 'huggingface_hub' in sys.modules, 'hub' in dir(treetop))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set() False True\n"


def test_paths_may_be_strings(hub, model, tmp_path):
    done = treetop.hub.push(str(model), "me/strings")
    treetop.hub.pull("me/strings", str(tmp_path / "back"), revision=done.revision)
    assert same(model, tmp_path / "back")


def test_a_model_comes_back_as_it_was_pushed(hub, model, tmp_path):
    done = push(model, NAME)
    assert "run.json" not in hub.files(NAME)  # it tells of the machine
    pulled = pull(NAME, tmp_path / "back")
    assert same(model, tmp_path / "back") and pulled.revision == done.revision and pulled.files == done.files
    assert treetop.load(tmp_path / "back").predict("a cat", k=1) == treetop.load(model).predict("a cat", k=1)


def test_changes_of_labels_travel_and_files_of_the_model_before_go(pushed, model, tmp_path):
    shutil.copytree(model, tmp_path / "edited")
    edited = treetop.load(tmp_path / "edited").rename_labels({"cat": "house cat"})
    edited.save(tmp_path / "edited")
    first = push(tmp_path / "edited", NAME)
    pull(NAME, tmp_path / "back")
    assert same(tmp_path / "edited", tmp_path / "back")
    assert not (tmp_path / "back" / "edits" / ".lock").exists()
    assert "house cat" in [label.name for label in treetop.load(tmp_path / "back").predict("a cat", k=5)]
    pushed.repositories[NAME][-1]["picture.png"] = b"of the card"
    treetop.fit("popular", ["a", "b"], [["x"], ["y"]], calibrate=False).save(tmp_path / "other")
    push(tmp_path / "other", NAME)
    names = set(pushed.files(NAME))
    assert "picture.png" in names and not [name for name in names if name.startswith("edits/")]
    pull(NAME, tmp_path / "back", overwrite=True)
    assert same(tmp_path / "other", tmp_path / "back")
    pull(NAME, tmp_path / "old", revision=first.revision)
    assert "house cat" in [label.name for label in treetop.load(tmp_path / "old").predict("a cat", k=5)]


def test_training_texts_are_pushed_only_when_asked(hub, tmp_path):
    model = treetop.fit("neighbours", ["a cat", "a dog"], [["cat"], ["dog"]], calibrate=False, keep_texts=True)
    model.save(tmp_path / "m")
    with pytest.raises(ConfigError, match=r"keeps its training texts.*--with-texts"):
        push(tmp_path / "m", NAME)
    assert NAME not in hub.repositories
    push(tmp_path / "m", NAME, with_texts=True)
    assert any(name.startswith("documents/") for name in hub.files(NAME))


def test_a_damaged_model_is_not_pushed(hub, model, tmp_path):
    shutil.copytree(model, tmp_path / "m")
    with (tmp_path / "m" / "golden.jsonl").open("r+b") as file:
        file.write(b" ")
    with pytest.raises(ModelError, match="sha256 differs"):
        push(tmp_path / "m", NAME)
    assert not hub.repositories


@pytest.mark.parametrize("name", ["model", "a/b/c", "", "../x/y", "me/a b"])
def test_a_name_that_is_no_repository(name, model, tmp_path):
    with pytest.raises(ConfigError, match="Give OWNER/NAME"):
        push(model, name)
    with pytest.raises(ConfigError, match="Give OWNER/NAME"):
        pull(name, tmp_path / "m")


def test_a_wrong_token_a_missing_repository_and_a_missing_revision(pushed, model, tmp_path):
    with pytest.raises(InputError, match=r"does not let you write to it \(status 401\)|may not write to it"):
        push(model, "me/new", token="hf_wrong")
    with pytest.raises(InputError, match="no such repository, or it is private"):
        pull("me/nothing", tmp_path / "m")
    with pytest.raises(InputError, match="no such branch, tag or commit"):
        pull(NAME, tmp_path / "m", revision="v2")
    assert not (tmp_path / "m").exists() and list(tmp_path.iterdir()) == []


def test_nothing_listens(monkeypatch, hub, tmp_path):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(WorkError, match="the connection to the hub could not be opened"):
        pull(NAME, tmp_path / "m")


def test_a_download_that_breaks_off_leaves_what_was_there(pushed, model, tmp_path, monkeypatch):
    download = pytest.importorskip("huggingface_hub.file_download")
    monkeypatch.setattr(download.time, "sleep", lambda _: None)  # the client waits between its tries
    pull(NAME, tmp_path / "m")
    pushed.cut = ".safetensors"
    with pytest.raises((WorkError, ModelError), match="Nothing was changed|nothing was put in place"):
        pull(NAME, tmp_path / "m", overwrite=True)
    assert same(model, tmp_path / "m") and [p.name for p in tmp_path.iterdir()] == ["m"]


def change(hub, name, raw):
    hub.repositories[NAME].append({**hub.files(NAME), name: raw})


def test_a_file_that_is_not_what_the_manifest_says(pushed, tmp_path):
    name = next(n for n in pushed.files(NAME) if n.endswith(".safetensors"))
    raw = pushed.files(NAME)[name]
    change(pushed, name, raw[:-1] + bytes([raw[-1] ^ 1]))
    with pytest.raises(ModelError, match=r"me/animals at [0-9a-f]{12}: refused, nothing was put in place.*sha256"):
        pull(NAME, tmp_path / "m")
    change(pushed, name, raw + b"more")
    pushed.asked.clear()
    with pytest.raises(ModelError, match=r"bytes, expected [\d,]+\. Nothing of it was downloaded"):
        pull(NAME, tmp_path / "m")
    assert not [path for path in pushed.asked if path.endswith(".safetensors")]
    assert list(tmp_path.iterdir()) == []


def test_only_what_the_manifest_names_is_downloaded(pushed, tmp_path):
    change(pushed, "payload.pkl", b"cposix\nsystem\n")
    pushed.asked.clear()
    pull(NAME, tmp_path / "m")
    assert not (tmp_path / "m" / "payload.pkl").exists() and not (tmp_path / "m" / ".cache").exists()
    assert not [path for path in pushed.asked if path.endswith(".pkl")]


@pytest.mark.parametrize("hostile", ["../../evil", "/etc/passwd", "a/../../b"])
def test_a_manifest_that_names_places_outside(hostile, pushed, tmp_path):
    from treetop.core.sealed import seal

    manifest = json.loads(pushed.files(NAME)["manifest.json"])
    del manifest["sha256"]
    manifest["files"][hostile] = {"size": 1, "sha256": "0" * 64}
    change(pushed, "manifest.json", seal(manifest))
    with pytest.raises(ModelError, match="outside the folder"):
        pull(NAME, tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_a_repository_without_a_model(hub, tmp_path):
    hub.repositories[NAME] = [{"pytorch_model.bin": b"x"}]
    with pytest.raises(ModelError, match="so it is not a treetop model"):
        pull(NAME, tmp_path / "m")


def test_a_model_that_is_larger_than_the_disk(pushed, tmp_path, monkeypatch):
    needed = sum(
        len(raw) for name, raw in pushed.files(NAME).items() if name not in {"manifest.json", ".gitattributes"}
    )
    usage = namedtuple("usage", "total used free")(1, 1, needed - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(ResourceError, match="free"):
        pull(NAME, tmp_path / "m")


def test_the_commands(hub, model, tmp_path):
    env = {**os.environ, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(tmp_path / "home")}
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    env.pop("HF_TOKEN")

    def treetop_(*words):
        words = [sys.executable, "-m", "treetop", *map(str, words)]
        return subprocess.run(words, env=env, capture_output=True, text=True)

    done = treetop_("hub", "push", model, NAME, "--private", "--token-file", tmp_path / "token")
    assert done.returncode == 0 and "me/animals: pushed" in done.stdout + done.stderr, done.stderr
    done = treetop_("hub", "pull", NAME, "--out", tmp_path / "m")
    assert done.returncode == 0 and "pulled and verified" in done.stdout + done.stderr, done.stderr
    done = treetop_("hub", "pull", NAME, "--out", tmp_path / "m")
    assert done.returncode == 2 and "exists already" in done.stderr
    done = treetop_("hub", "push", model, NAME)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "HF_TOKEN" in done.stderr, done.stderr
    done = treetop_("hub", "pull", NAME, "--out", tmp_path / "n", "--token-file", tmp_path / "none")
    assert done.returncode == 2 and "cannot be read" in done.stderr
