import json
import os
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from treetop.core import store
from treetop.core.arrays import read_arrays, write_arrays
from treetop.core.errors import ModelError, ResourceError, WorkError
from treetop.core.store import (
    Part,
    check_folder,
    check_new_file,
    check_target,
    read_part,
    replacing,
    replacing_file,
    write_manifest,
    write_part,
)

ARRAYS = {"b": np.arange(7, dtype=np.float32), "a": np.zeros((0, 3), np.int64), "c": np.array([[True], [False]])}


def saved(folder, files=()):
    inner = Part("inner.1", {"x": None}, {"v": np.arange(3, dtype=np.int32)})
    with replacing(folder) as fresh:
        write_part(fresh, Part("outer.1", {"n": 1}, ARRAYS, {"in": inner}, dict(files)))
        write_manifest(fresh, {"recipe": "r"})
    return folder


def test_arrays_round_trip_aligned_and_readable_by_safetensors(tmp_path):
    write_arrays(tmp_path / "x", ARRAYS)
    ours, theirs = read_arrays(tmp_path / "x"), load_file(tmp_path / "x")
    for name, array in ARRAYS.items():
        assert np.array_equal(ours[name], array) and ours[name].dtype == array.dtype
        assert np.array_equal(theirs[name], array)
        assert ours[name].__array_interface__["data"][0] % 64 == 0 or array.size == 0
        assert not ours[name].flags.writeable or array.size == 0
    save_file({"f": np.arange(3, dtype=np.int64), "e": np.ones(3, np.uint8)}, tmp_path / "y")
    assert read_arrays(tmp_path / "y")["f"].tolist() == [0, 1, 2]


def header(entries, body=b""):
    text = json.dumps(entries).encode()
    return len(text).to_bytes(8, "little") + text + body


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "the header declares"),
        ((1 << 40).to_bytes(8, "little") + b"{}", "the header declares 1,099,511,627,776 bytes in a file of 10"),
        ((2).to_bytes(8, "little") + b"[]", "no table of arrays"),
        ((2).to_bytes(8, "little") + b"{x", "not valid JSON"),
        (header({"a": 1}), "entry of array 'a' is malformed"),
        (header({"a": {"dtype": "O", "shape": [1], "data_offsets": [0, 8]}}, bytes(8)), "malformed"),
        (header({"a": {"dtype": "F32", "shape": [2**62, 4], "data_offsets": [0, 0]}}), "has shape"),
        (header({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}, bytes(4)), "outside the file"),
        (header({"a": {"dtype": "U8", "shape": [9], "data_offsets": [0, 9]}}, bytes(4)), "outside the file"),
        (header({"a": {"dtype": "U8", "shape": [4], "data_offsets": [4, 8]}}, bytes(8)), "overlap or leave holes"),
        (header({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}, bytes(8)), "cover 4 of 8 bytes"),
    ],
)
def test_broken_array_files_are_refused_by_name(tmp_path, raw, reason):
    (tmp_path / "x").write_bytes(raw)
    with pytest.raises(ModelError, match=reason) as caught:
        read_arrays(tmp_path / "x")
    assert str(tmp_path / "x") in str(caught.value)


def test_folder_round_trip(tmp_path):
    folder = saved(tmp_path / "m", {"note.txt": b"hello"})
    assert check_folder(folder, check="full")["recipe"] == "r"
    part = read_part(folder)
    assert part.kind == "outer.1" and part.parts["in"].arrays["v"].tolist() == [0, 1, 2]
    assert part.files["note.txt"] == b"hello"


def test_same_content_same_bytes(tmp_path):
    one, two = saved(tmp_path / "1"), saved(tmp_path / "2")
    assert (one / "manifest.json").read_bytes() == (two / "manifest.json").read_bytes()


def test_damage_is_named(tmp_path):
    def refused(damage, reason, check="quick"):
        folder = saved(tmp_path / f"m{len(list(tmp_path.iterdir()))}")
        damage(folder)
        with pytest.raises(ModelError, match=reason):
            check_folder(folder, check=check)
            read_part(folder)

    refused(lambda f: (f / "in/arrays.safetensors").unlink(), "in/arrays.safetensors: missing")
    refused(lambda f: (f / "manifest.json").unlink(), "no manifest.json")
    refused(lambda f: (f / "part.json").write_bytes(b"{}"), "part.json: 2 bytes, the list of files says")
    refused(
        lambda f: (f / "arrays.safetensors").write_bytes((f / "arrays.safetensors").read_bytes() + b"x"),
        "bytes, the list of files says",
    )
    refused(lambda f: (f / "extra").write_bytes(b""), "'extra' is not in the manifest", "full")
    refused(lambda f: (f / "manifest.json").write_bytes(b"[]"), "expected a JSON object")
    refused(lambda f: (f / "manifest.json").write_bytes(b"{"), "not valid JSON")

    def outside(f):
        text = (f / "manifest.json").read_text().replace('"part.json"', '"../part.json"')
        (f / "manifest.json").write_text(text)

    refused(outside, "names '../part.json', which leaves the folder")
    refused(outside, "changed after it was written", "full")

    def linked(f):
        (f / "part.json").rename(f.parent / "elsewhere.json")
        (f / "part.json").symlink_to(f.parent / "elsewhere.json")

    refused(linked, "part.json: missing .or a link.")
    with pytest.raises(ModelError, match="no such model folder"):
        check_folder(tmp_path / "absent")
    (tmp_path / "p").mkdir()
    (tmp_path / "p/model.pkl").touch()
    with pytest.raises(ModelError, match="pickled models can run code and are never opened"):
        check_folder(tmp_path / "p")


def test_a_folder_reached_by_a_link_is_the_model_itself(tmp_path):
    saved(tmp_path / "m")
    (tmp_path / "latest").symlink_to("m")
    assert check_folder(tmp_path / "latest", check="full") == check_folder(tmp_path / "m", check="full")


@pytest.mark.parametrize("place", ["m/new", "m/in/deep/new", "latest/new", "m/../m/new", "m/part.json"])
@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("check", [check_target, check_new_file])
def test_nothing_is_written_into_a_model(tmp_path, check, overwrite, place):
    saved(tmp_path / "m")
    (tmp_path / "latest").symlink_to("m")
    with pytest.raises(WorkError, match=r"lies in the model's folder .*m, which may hold nothing else"):
        check(tmp_path / place, overwrite=overwrite)
    check(tmp_path / "beside", overwrite=overwrite)
    check_target(tmp_path / "m", overwrite=True)  # a model as a whole may be replaced


@pytest.mark.parametrize("check", [check_target, check_new_file])
def test_places_that_are_taken_or_out_of_reach_are_refused_at_once(tmp_path, monkeypatch, check):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(WorkError, match=r"/file: exists already"):
        check(tmp_path / "new/../file", overwrite=False)
    with pytest.raises(WorkError, match=r"/file/x/y: cannot be made, as .*/file is no folder\. Choose another place"):
        check(tmp_path / "file/x/y", overwrite=False)
    monkeypatch.setattr(os, "access", lambda path, mode: mode == os.F_OK and Path(path).exists())  # root may write all
    with pytest.raises(WorkError, match=r"x/y: nothing may be written in .*\. Change the rights of that folder"):
        check(tmp_path / "x/y", overwrite=False)
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_part_checks(tmp_path):
    part = Part("k.1", {"n": 3}, {"i": np.array([0, 5], np.int32), "p": np.array([0, 2, 1, 3])})
    with pytest.raises(ModelError, match="array 'x' is missing"):
        part.array("x", "<i4", 2)
    with pytest.raises(ModelError, match=r"array 'i' is int32 \(2,\), expected int64 \(\?\)"):
        part.array("i", "<i8", None)
    with pytest.raises(ModelError, match="points outside 0..4"):
        part.indices("i", "<i4", None, 5)
    with pytest.raises(ModelError, match="do not run from 0 to 3"):
        part.pointers("p", 4, 3)
    with pytest.raises(ModelError, match="setting 'n' is 3, expected str"):
        part.setting("n", str)


def test_a_failed_write_leaves_the_old_folder(tmp_path):
    folder = saved(tmp_path / "m")
    before = (folder / "manifest.json").read_bytes()
    with pytest.raises(ResourceError, match="nothing was replaced"), replacing(folder) as fresh:
        (fresh / "half").write_bytes(b"x")
        raise OSError(28, "No space left on device")
    assert (folder / "manifest.json").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_a_failed_write_leaves_the_old_file(tmp_path):
    (tmp_path / "f").write_text("mine")
    with (
        pytest.raises(ResourceError, match=r"/f: could not be written \(No space"),
        replacing_file(tmp_path / "f") as file,
    ):
        file.write("half")
        raise OSError(28, "No space left on device")
    with pytest.raises(OSError, match="other"), replacing_file(tmp_path / "f"):
        raise OSError(5, "other")  # of what is read meanwhile
    assert (tmp_path / "f").read_text() == "mine" and [p.name for p in tmp_path.iterdir()] == ["f"]


def test_a_folder_is_replaced_in_one_step(tmp_path, monkeypatch):
    """No moment without a model: where the system exchanges folders, no rename ever takes the old one away."""
    target = tmp_path / "model"
    target.mkdir()
    (target / "old").touch()
    fresh_one, other = tmp_path / "a", tmp_path / "b"
    fresh_one.mkdir()
    other.mkdir()
    if not store._exchange(fresh_one, other):
        pytest.skip("this file system cannot exchange folders")

    def never(*_):
        raise AssertionError("renamed")

    monkeypatch.setattr(Path, "rename", never)
    with store.replacing(target) as fresh:
        (fresh / "new").touch()
    assert [p.name for p in target.iterdir()] == ["new"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b", "model"]


def test_a_folder_that_vanishes_while_files_are_listed_is_not_there(tmp_path, monkeypatch):
    import os
    import shutil

    from treetop.core.store import files_below

    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    scan = os.scandir

    def scandir(place="."):
        if str(place).endswith("b"):  # another process was faster
            shutil.rmtree(place, ignore_errors=True)
        return scan(place)

    monkeypatch.setattr(os, "scandir", scandir)
    assert files_below(tmp_path) == ["a/file"]


def test_parts_of_the_same_data_are_the_same():
    def part(**changes):
        values = {"kind": "a.b.1", "config": {"n": [1, 2]}, "arrays": {"x": np.array([1.0, np.nan], np.float32)}}
        return Part(**{**values, "parts": {"in": Part("c.1", {"m": 1})}, "files": {"f": b"1"}, **changes})

    assert part().same(part()) and part().same(part(config={"n": (1, 2)}))  # as written to disk
    assert Part("a.1", arrays={"x": np.zeros((0, 3))}).same(Part("a.1", arrays={"x": np.zeros((0, 3))}))
    assert part().same(part(arrays={"x": np.array([1, 9, np.nan, 9], np.float32)[::2]}))
    for other in (
        {"kind": "a.b.2"}, {"config": {"n": [1, 3]}}, {"files": {"f": b"2"}}, {"files": {}}, {"parts": {}},
        {"arrays": {}}, {"arrays": {"y": part().arrays["x"]}}, {"arrays": {"x": np.array([1.0, 2.0], np.float32)}},
        {"arrays": {"x": part().arrays["x"].view(np.int32)}}, {"arrays": {"x": part().arrays["x"][None]}},
        {"parts": {"in": Part("c.1", {"m": 2})}},
    ):  # fmt: skip
        assert not part().same(part(**other)), other
