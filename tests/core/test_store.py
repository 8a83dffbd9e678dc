import os
import shutil

import numpy as np
import pytest

from treetop.core.errors import ModelError
from treetop.core.store import Part, check_folder, files_below, read_part, write_manifest, write_part
from treetop.core.target import replacing

ARRAYS = {"b": np.arange(7, dtype=np.float32), "a": np.zeros((0, 3), np.int64), "c": np.array([[True], [False]])}


def saved(folder, files=()):
    inner = Part("inner.1", {"x": None}, {"v": np.arange(3, dtype=np.int32)})
    with replacing(folder) as fresh:
        write_part(fresh, Part("outer.1", {"n": 1}, ARRAYS, {"in": inner}, dict(files)))
        write_manifest(fresh, {"recipe": "r"})
    return folder


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

    refused(outside, "names '../part.json', which is outside the folder")
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


def test_arrays_that_do_not_fit_are_refused(tmp_path):
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


def test_a_folder_that_vanishes_while_files_are_listed_is_not_there(tmp_path, monkeypatch):
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
