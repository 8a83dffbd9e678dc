"""What `load` reads: files that the manifest lists, plain, of the listed size, with values that make sense."""

import json
import os
import re
import resource
import shutil
from pathlib import Path

import numpy as np
import pytest

import toy
import treetop
from toy_edits import TEXTS, same
from treetop.core.dataset import Dataset
from treetop.core.errors import ModelError
from treetop.core.sealed import seal
from treetop.core.store import files_below, write_manifest


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "m"
    treetop.fit("popular", ["a cat", "a dog"], [["pet", "cat"], ["pet"]], out=folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    return Path(shutil.copytree(saved, tmp_path / "m"))


def rewrite(folder, **changes):
    """Change the manifest and seal it again."""
    manifest = json.loads((folder / "manifest.json").read_bytes())
    (folder / "manifest.json").write_bytes(seal({**manifest, **changes}))


def reseal(folder):
    """List all files as they are now; other facts stay."""
    write_manifest(folder, json.loads((folder / "manifest.json").read_bytes()))


def refused(folder, match=None, check="quick"):
    with pytest.raises(ModelError, match=match) as caught:
        treetop.load(folder, check=check)
    said = str(caught.value)
    assert str(folder) in said and "\n" not in said and said.count(". ") <= 2, said


# --- listed, plain, of the listed size ---


def test_a_file_that_is_not_listed_is_not_read(folder):
    rewrite(folder, files={})
    refused(folder, "needs 'part.json', which is not in its list of files")
    refused(folder, check="full")


@pytest.mark.parametrize("name", ["golden.jsonl", "labels/part.json", "member-00/level-00/rank/arrays.safetensors"])
def test_each_file_must_be_listed(folder, name):
    files = json.loads((folder / "manifest.json").read_bytes())["files"]
    rewrite(folder, files={listed: facts for listed, facts in files.items() if listed != name})
    refused(folder, "not in its list of files|array '.*' is missing")


@pytest.mark.parametrize("name", ["golden.jsonl", "manifest.json", "part.json", "labels/arrays.safetensors"])
def test_a_pipe_is_refused_at_once(folder, name):
    (folder / name).unlink()
    os.mkfifo(folder / name)
    refused(folder, "not a plain file")
    refused(folder, check="full")


@pytest.mark.parametrize("name", ["golden.jsonl", "manifest.json", "part.json", "labels", "member-00/level-00"])
def test_a_link_is_refused_wherever_it_leads(folder, name):
    (folder / name).rename(folder.parent / "elsewhere")
    (folder / name).symlink_to(folder.parent / "elsewhere")
    refused(folder, "missing .or a link.")


def test_an_endless_device_is_not_read(folder):
    (folder / "golden.jsonl").unlink()
    (folder / "golden.jsonl").symlink_to("/dev/zero")
    refused(folder, "golden.jsonl: missing .or a link.")
    rewrite(folder, files={})
    refused(folder)


def test_run_json_is_a_plain_file_too(folder):
    (folder / "run.json").unlink()
    os.mkfifo(folder / "run.json")
    treetop.load(folder)  # nothing of it is needed
    refused(folder, "run.json: not a plain file", check="full")


def test_a_pipe_beside_the_files_is_found(folder):
    os.mkfifo(folder / "extra")
    refused(folder, "'extra' is not in the manifest", check="full")


def test_a_large_file_is_not_read_at_once(folder):
    with (folder / "golden.jsonl").open("ab") as file:
        file.truncate(1 << 32)
    rewrite(folder, files=_sizes(folder))
    refused(folder, "golden.jsonl: 4,294,967,296 bytes, at most")


def _sizes(folder):
    return {name: {"size": (folder / name).stat().st_size} for name in files_below(folder) if name != "manifest.json"}


def test_an_array_nobody_asked_for_takes_no_memory(folder):
    file = folder / "labels/arrays.safetensors"
    raw = file.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header, body = json.loads(raw[8 : 8 + length]), raw[8 + length :]
    header["extra"] = {"dtype": "U8", "shape": [1 << 32], "data_offsets": [len(body), len(body) + (1 << 32)]}
    text = json.dumps(header).encode()
    text += b" " * (-(len(text) + 8) % 64)
    file.write_bytes(len(text).to_bytes(8, "little") + text + body)
    os.truncate(file, 8 + len(text) + len(body) + (1 << 32))
    rewrite(folder, files=_sizes(folder))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert len(treetop.load(folder).predict("a cat", 2)) == 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


@pytest.mark.parametrize(
    "name", ["a\0b", "\ud800", "a//b", "../x", "/etc/passwd", "a:b", "a\\b", "/".join("a" * 99), ""]
)
def test_a_strange_name_in_the_list_is_refused(folder, name):
    text = json.dumps({**json.loads((folder / "manifest.json").read_bytes()), "files": {name: {"size": 1}}})
    (folder / "manifest.json").write_text(text)
    refused(folder, "which is outside the folder or not a file name|not valid JSON")


@pytest.mark.parametrize("path", ["a\0b", "\ud800", "", "no such folder"])
def test_a_path_that_is_none_is_one_sentence(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match="no such model folder|no manifest.json"):
        treetop.load(path)


# --- JSON ---

DEEP = b"[" * 5000 + b"]" * 5000
BELOW = b"[" * 300 + b"1" + b"]" * 300
BAD_JSON = [b"null", b"{}", b"[]", b"", b"\xff", DEEP, BELOW, b'{"a": NaN}', b'{"a": 1e999}', b"9" * 5000, b'"\\ud800"']


@pytest.mark.parametrize("raw", BAD_JSON, ids=lambda raw: raw[:12].decode(errors="replace"))
@pytest.mark.parametrize("name", ["golden.jsonl", "part.json", "labels/part.json", "member-00/level-00/rank/part.json"])
def test_json_of_another_kind_is_one_sentence(folder, name, raw):
    if name == "golden.jsonl" and not raw:
        return  # no golden inputs
    (folder / name).write_bytes(raw)
    reseal(folder)
    refused(folder, re.escape(name))


@pytest.mark.parametrize("raw", BAD_JSON, ids=lambda raw: raw[:12].decode(errors="replace"))
def test_a_manifest_of_another_kind_is_one_sentence(folder, raw):
    (folder / "manifest.json").write_bytes(raw)
    refused(folder, "manifest.json: |model format")


GOLDEN = {"text": "a cat", "ids": ["pet", "cat"], "scores": [1.0, 0.5]}


@pytest.mark.parametrize(
    "change",
    [
        {"scores": [1.0]}, {"scores": None}, {"scores": ["1", "2"]}, {"ids": "ab"}, {"ids": [1, 2]}, {"text": None},
        {"text": ["a"]}, {"scores": [True, 1]},
    ],
)  # fmt: skip
def test_golden_inputs_of_another_shape_are_refused_by_line(folder, change):
    rows = [GOLDEN, {**GOLDEN, **change}]
    (folder / "golden.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    reseal(folder)
    refused(folder, "golden.jsonl:2: expected")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("part.json", {"config": {"n_train": 2, "blend": "average", "members": -1}}),
        ("part.json", {"config": {"n_train": 2, "blend": "average", "members": 0}}),
        ("part.json", {"config": {"n_train": 2, "blend": "average", "members": 10**15}}),
        ("part.json", {"config": {"n_train": 2, "blend": "average", "members": 1, "weights": None}}),
        ("part.json", {"config": {"n_train": 2, "blend": "average", "members": 1, "weights": {"a": 1}}}),
        ("part.json", {"config": {"n_train": 2**70, "blend": "average", "members": 1}}),
        ("part.json", {"parts": ["labels"]}),
        ("part.json", {"parts": {"../m/labels": "labels.1"}}),
        ("part.json", {"parts": {"a\0b": "labels.1"}}),
        ("part.json", {"files": [["a"]]}),
        ("part.json", {"files": {"golden.jsonl": 1}}),
        ("labels/part.json", {"kind": 3}),
        ("member-00/level-00/part.json", {"kind": "\ud800"}),
    ],
)
def test_a_part_of_another_shape_is_one_sentence(folder, name, change):
    (folder / name).write_text(json.dumps({**json.loads((folder / name).read_bytes()), **change}))
    reseal(folder)
    refused(folder)


@pytest.mark.parametrize("change", [{"recipe": None}, {"config": []}, {"seed": "1"}, {"data": None}, {"files": []}])
def test_a_manifest_without_its_facts_is_one_sentence(folder, change):
    rewrite(folder, **change)
    refused(folder)
    refused(folder, check="full")


# --- changes to labels ---


@pytest.fixture
def changed(folder):
    treetop.load(folder).retire_labels(["pet"]).save(folder)
    return folder


def relog(folder, **changes):
    log = json.loads((folder / "edits/log.json").read_bytes())
    log["edits"][0] |= changes
    (folder / "edits/log.json").write_bytes(seal(log))


@pytest.mark.parametrize(
    "change",
    [
        {"action": "explode"}, {"action": ["retire"]}, {"ids": None}, {"ids": [1]}, {"files": {}}, {"labels": "1"},
        {"files": {"0001/a\0b": {"size": 1}}}, {"files": {"0001/../../part.json": {"size": 1}}},
    ],
)  # fmt: skip
def test_a_log_of_another_shape_is_one_sentence(changed, change):
    relog(changed, **change)
    refused(changed)


@pytest.mark.parametrize("raw", BAD_JSON, ids=lambda raw: raw[:12].decode(errors="replace"))
def test_a_log_of_another_kind_is_one_sentence(changed, raw):
    (changed / "edits/log.json").write_bytes(raw)
    refused(changed, "log.json")


@pytest.mark.parametrize("name", ["edits/log.json", "edits/0001/part.json", "edits/0001/arrays.safetensors"])
def test_pipes_and_links_among_label_changes_are_refused(changed, name):
    (changed / name).rename(changed.parent / "elsewhere")
    os.mkfifo(changed / name)
    refused(changed, "not a plain file")
    (changed / name).unlink()
    (changed / name).symlink_to(changed.parent / "elsewhere")
    refused(changed, "missing .or a link.")


@pytest.mark.parametrize("name", ["edits", "edits/0001"])
def test_a_linked_folder_of_label_changes_is_refused(changed, name):
    (changed / name).rename(changed.parent / "elsewhere")
    (changed / name).symlink_to(changed.parent / "elsewhere")
    refused(changed, "a link")


def test_where_folders_have_no_descriptors_the_same_is_refused(changed, monkeypatch):
    """As on Windows: by path, links looked for first."""
    monkeypatch.setattr("treetop.core.folder.DESCRIPTORS", False)
    assert same(treetop.load(changed, check="full").rank(TEXTS, 2), treetop.load(changed).rank(TEXTS, 2))
    treetop.load(changed).restore_labels(["pet"]).save(changed)
    (changed / "labels").rename(changed.parent / "elsewhere")
    (changed / "labels").symlink_to(changed.parent / "elsewhere")
    refused(changed, "missing .or a link.")
    (changed / "labels").unlink()
    (changed.parent / "elsewhere").rename(changed / "labels")
    (changed / "edits/0001/part.json").unlink()
    os.mkfifo(changed / "edits/0001/part.json")
    refused(changed, "not a plain file")


# --- line breaks of Unicode ---

BREAKS = ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\r"]


@pytest.mark.parametrize("sign", BREAKS, ids=lambda sign: f"U+{ord(sign):04X}")
def test_texts_and_ids_may_hold_any_line_break(tmp_path, sign):
    texts, ids = [f"one{sign}two", "a dog"], [[f"a{sign}b"], [f"{sign}c"]]
    made = treetop.fit("popular", texts, ids, out=tmp_path / "m")
    model = treetop.load(tmp_path / "m", check="full")
    model.check_golden()
    assert [row["text"] for row in model.golden] == texts and same(model.rank(TEXTS, 2), made.rank(TEXTS, 2))
    model.retire_labels([f"a{sign}b"], note=f"x{sign}y").save(tmp_path / "m")
    assert treetop.load(tmp_path / "m", check="full").labels.status.tolist() == [1, 0]


# --- saved means it opens ---


def test_a_model_that_does_not_open_again_is_not_put_in_place(tmp_path, monkeypatch):
    data, out = toy.dataset(), tmp_path / "m"
    treetop.fit("popular", data, out=out)
    before = {name: (out / name).read_bytes() for name in files_below(out)}
    with monkeypatch.context() as patch:
        patch.setattr("treetop.core.golden.to_lines", lambda rows: b"{\n")
        with pytest.raises(ModelError, match="m: not saved, as the model does not open again: .*golden.jsonl:1"):
            treetop.fit("neighbours", data, out=out, overwrite=True)
        patch.setattr("treetop.core.golden.to_lines", lambda rows: b"")
        with pytest.raises(ModelError, match="m: not saved, as its golden inputs do not read as they were written"):
            treetop.fit("neighbours", data, out=out, overwrite=True)
    assert {name: (out / name).read_bytes() for name in files_below(out)} == before
    assert {file.name for file in tmp_path.iterdir()} == {"m", "m.work"}
    model = treetop.fit("neighbours", data, out=out, overwrite=True, resume=True)
    assert same(treetop.load(out).rank(TEXTS, 5), model.rank(TEXTS, 5))
    assert {file.name for file in tmp_path.iterdir()} == {"m"}


def test_arrays_of_a_loaded_model_outlive_its_folder(tmp_path):
    data = toy.dataset()
    one, two = treetop.fit("neighbours", data), treetop.fit("popular", data)
    one.save(tmp_path / "m")
    loaded = treetop.load(tmp_path / "m")
    two.save(tmp_path / "m", overwrite=True)
    assert same(loaded.rank(TEXTS, 5), one.rank(TEXTS, 5)) and np.array_equal(loaded.counts, one.counts)


def test_data_whose_name_is_not_utf8_train_a_model_that_opens(tmp_path):
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    toy.write_rows(toy.dataset(), folder / "train.jsonl")
    treetop.fit("popular", Dataset.read(folder), out=tmp_path / "m")
    assert treetop.load(tmp_path / "m", check="full").card.data["name"] == "caf\\xe9"
