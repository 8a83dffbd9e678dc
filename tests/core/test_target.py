import os
from pathlib import Path

import numpy as np
import pytest

import toy
from treetop.core import target
from treetop.core.edits import Edit, write_edits
from treetop.core.errors import ResourceError, WorkError
from treetop.core.sealed import unseal
from treetop.core.store import Part, write_manifest, write_part
from treetop.core.target import check_new_file, check_target, exclusive_lock, replacing, replacing_file
from treetop.core.work import open_work
from treetop.data.write import write


def saved(folder):
    with replacing(folder) as fresh:
        write_part(fresh, Part("outer.1", parts={"in": Part("inner.1")}))
        write_manifest(fresh, {"recipe": "r"})
    return folder


@pytest.mark.parametrize("place", ["m/new", "m/in/deep/new", "latest/new", "m/../m/new", "m/part.json"])
@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("check", [check_target, check_new_file])
def test_nothing_is_written_into_a_model(tmp_path, check, overwrite, place):
    saved(tmp_path / "m")
    (tmp_path / "latest").symlink_to("m")
    with pytest.raises(WorkError, match=r"is inside the model folder .*m, which may contain nothing else"):
        check(tmp_path / place, overwrite=overwrite)
    check(tmp_path / "beside", overwrite=overwrite)
    check_target(tmp_path / "m", overwrite=True)  # a model as a whole may be replaced


@pytest.mark.parametrize("check", [check_target, check_new_file])
def test_places_that_are_taken_or_out_of_reach_are_refused_at_once(tmp_path, monkeypatch, check):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(WorkError, match=r"/file: exists already"):
        check(tmp_path / "new/../file", overwrite=False)
    with pytest.raises(
        WorkError, match=r"/file/x/y: cannot be created, as .*/file is not a folder\. Choose another place"
    ):
        check(tmp_path / "file/x/y", overwrite=False)
    monkeypatch.setattr(os, "access", lambda path, mode: mode == os.F_OK and Path(path).exists())  # root may write all
    with pytest.raises(WorkError, match=r"x/y: no permission to write in .*\. Change its permissions"):
        check(tmp_path / "x/y", overwrite=False)
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


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
    place = tmp_path / "model"
    place.mkdir()
    (place / "old").touch()
    fresh_one, other = tmp_path / "a", tmp_path / "b"
    fresh_one.mkdir()
    other.mkdir()
    if not target._exchange(fresh_one, other):
        pytest.skip("this file system cannot exchange folders")

    def never(*_):
        raise AssertionError("renamed")

    monkeypatch.setattr(Path, "rename", never)
    with replacing(place) as fresh:
        (fresh / "new").touch()
    assert [p.name for p in place.iterdir()] == ["new"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b", "model"]


def test_what_killed_processes_left_is_removed_and_what_others_write_stays(tmp_path):
    pytest.importorskip("fcntl")
    for name in (".m.abcdef_1.tmp", ".m.abcdef_2.tmp", ".m.mine.tmp", ".mm.abcdef_1.tmp"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "half").touch()
    with exclusive_lock(tmp_path / ".m.abcdef_2.tmp", "busy"), replacing(tmp_path / "m") as fresh:
        with pytest.raises(WorkError, match="busy"), exclusive_lock(fresh, "busy"):
            pass
        assert sorted(p.name for p in tmp_path.iterdir()) == sorted(
            [".m.abcdef_2.tmp", ".m.mine.tmp", ".mm.abcdef_1.tmp", fresh.name]
        )
    saved(tmp_path / "m")
    assert sorted(p.name for p in tmp_path.iterdir()) == [".m.mine.tmp", ".mm.abcdef_1.tmp", "m"]


def test_two_processes_do_not_write_one_file_at_once(tmp_path):
    pytest.importorskip("fcntl")
    with replacing_file(tmp_path / "f") as file:
        file.write("first")
        with (
            pytest.raises(WorkError, match=r"/f: another process is writing it now\. Wait"),
            replacing_file(tmp_path / "f"),
        ):
            pass
    assert (tmp_path / "f").read_text() == "first" and [p.name for p in tmp_path.iterdir()] == ["f"]


@pytest.mark.parametrize("mask", [0o077, 0o027, 0o022, 0o002])
def test_the_umask_says_who_may_read_what_is_written(tmp_path, mask):
    before = os.umask(mask)
    try:
        for _ in range(2):  # new, and in the place of an old one
            saved(tmp_path / "m")
        seal = unseal(tmp_path / "m/manifest.json")["sha256"]
        write_edits(tmp_path / "m", seal, [Edit({"action": "add"}, Part("x.1", arrays={"v": np.arange(3)}))])
        write(toy.dataset(), tmp_path / "data")
        with replacing_file(tmp_path / "file") as file:
            file.write("x")
        open_work(tmp_path / "n", {})
    finally:
        os.umask(before)
    found = sorted(tmp_path.rglob("*"))
    assert {"m/edits/0001", "data/train.jsonl", "n.work/key.json"} <= {str(p.relative_to(tmp_path)) for p in found}
    for path in found:
        assert path.stat().st_mode & 0o777 == (0o777 if path.is_dir() else 0o666) & ~mask, path
