from pathlib import Path

import numpy as np
import pytest

from treetop.core.errors import WorkError
from treetop.core.store import Part
from treetop.core.work import Job, fingerprint, open_work, work_lock

KEY = {"data": "d", "settings": {"a": 1}}


def test_a_finished_stage_is_not_made_again(tmp_path):
    work = open_work(tmp_path / "m", KEY)
    made = []

    def make():
        made.append(1)
        return Part("x.1", {"n": 1}, {"v": np.arange(3)})

    first = Job(work=work).stage("one", make)
    again = Job(work=open_work(tmp_path / "m", KEY, resume=True)).stage("one", make)
    assert made == [1] and np.array_equal(first.arrays["v"], again.arrays["v"])
    (work / "one/arrays.safetensors").write_bytes(b"torn")
    Job(work=work).stage("one", make)
    assert made == [1, 1]


def test_without_a_folder_nothing_is_kept():
    assert Job().stage("one", lambda: Part("x.1")).kind == "x.1"


def test_foreign_or_unasked_work_is_refused(tmp_path):
    out = tmp_path / "m"
    open_work(out, KEY)
    with pytest.raises(WorkError, match="is an interrupted run. Add --resume"):
        open_work(out, KEY)
    with pytest.raises(WorkError, match="belongs to a job with other settings"):
        open_work(out, {**KEY, "settings": {"a": 2}}, resume=True)
    open_work(out, {**KEY, "data": "e"}, overwrite=True)
    out.mkdir()
    with pytest.raises(WorkError, match="exists already"):
        open_work(out, KEY)
    (out / "thesis.txt").touch()
    for place in (out, out / "thesis.txt"):
        with pytest.raises(WorkError, match="only models are overwritten"):
            open_work(place, KEY, overwrite=True)
    with pytest.raises(WorkError, match="not a folder name"):
        open_work(Path(), KEY)


def test_work_is_found_behind_folders_that_are_not_there(tmp_path):
    open_work(tmp_path / "m", {"data": 1})
    with pytest.raises(WorkError, match="an interrupted run"):
        open_work(tmp_path / "new/../m", {"data": 1})
    assert open_work(tmp_path / "new/../m", {"data": 1}, resume=True) == tmp_path / "m.work"
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("options", [{}, {"resume": True}, {"overwrite": True}])
def test_files_of_a_person_are_never_taken_for_work(tmp_path, options):
    (tmp_path / "m.work").mkdir()
    (tmp_path / "m.work/thesis.txt").write_text("mine")
    (tmp_path / "n.work").write_text("mine")
    (tmp_path / "l.work").symlink_to(tmp_path / "m.work")
    for name in ("m", "n", "l"):
        with pytest.raises(
            WorkError, match=rf"{name}\.work: is not an interrupted run, but the stages of .*/{name} would be stored"
        ):
            open_work(tmp_path / name, KEY, **options)
    assert (tmp_path / "m.work/thesis.txt").read_text() == (tmp_path / "n.work").read_text() == "mine"


def test_a_damaged_key_is_told(tmp_path):
    (open_work(tmp_path / "m", KEY) / "key.json").write_text("garbage")
    with pytest.raises(WorkError, match=r"m\.work: its key\.json is damaged, .* Add --overwrite"):
        open_work(tmp_path / "m", KEY, resume=True)
    open_work(tmp_path / "m", KEY, overwrite=True)


def test_a_fingerprint_follows_values_not_the_order_of_keys():
    assert fingerprint({"b": 1, "a": [1, 2]}) == fingerprint({"a": [1, 2], "b": 1}) != fingerprint({"a": [2, 1]})


@pytest.mark.parametrize("options", [{}, {"resume": True}, {"overwrite": True}])
def test_work_that_another_process_is_at_is_left_alone(tmp_path, options):
    pytest.importorskip("fcntl")
    work = open_work(tmp_path / "m", KEY)
    with (
        work_lock(work),
        pytest.raises(WorkError, match=r"m\.work: another process is training into it now\. Wait until"),
    ):
        open_work(tmp_path / "m", KEY, **options)
    assert (work / "key.json").is_file()
    assert open_work(tmp_path / "m", KEY, resume=True) == work


def test_what_fails_while_a_stage_is_made_is_not_told_as_a_full_disk(tmp_path):
    def make():
        raise FileNotFoundError(2, "No such file", "encoder.json")

    with pytest.raises(FileNotFoundError, match=r"encoder\.json"):
        Job(work=open_work(tmp_path / "m", KEY)).stage("one", make)
