"""Models and data that another process replaces while they are read: one state or the other, never half of each."""

import dataclasses
import multiprocessing
import os
import shutil
import time

import pytest

import toy
import treetop
from toy_edits import TEXTS, same
from treetop.core import edits, target
from treetop.core.dataset import Dataset, LabelSet
from treetop.core.errors import DataError, ModelError, TreetopError, WorkError
from treetop.data import write
from treetop.data.formats import jsonl
from treetop.data.parse import lines

LOADS = {True: 150, False: 40}


@pytest.fixture(scope="module")
def models():
    settings = {"tfidf": {"min_df": 1}}
    return [treetop.fit("parabel", toy.dataset(seed), settings=settings) for seed in (0, 1)]


@pytest.fixture(scope="module")
def saved(models, tmp_path_factory):
    """A folder with both, "m" and "other"."""
    folder = tmp_path_factory.mktemp("saved")
    for name, model in zip(("m", "other"), models, strict=True):
        model.save(folder / name)
    return folder


def _save_in_turn(models, folder, stop):
    target.sync = lambda path: None  # as often as can be
    while not stop.is_set():
        for model in models:
            model.save(folder, overwrite=True)


@pytest.mark.parametrize("descriptors", [True, False], ids=["by descriptor", "by path"])
def test_a_load_during_saves_answers_like_one_of_both(models, tmp_path, monkeypatch, descriptors):
    monkeypatch.setattr("treetop.core.folder.DESCRIPTORS", descriptors)
    folder, answers = tmp_path / "m", [model.rank(TEXTS[:5], 5) for model in models]
    models[0].save(folder)
    context = multiprocessing.get_context("fork")
    stop = context.Event()
    saver = context.Process(target=_save_in_turn, args=(models, folder, stop))
    saver.start()
    seen, failed, until = [0, 0], 0, time.monotonic() + 60
    try:
        while (sum(seen) + failed < LOADS[descriptors] or not all(seen)) and time.monotonic() < until:
            try:
                found = treetop.load(folder).rank(TEXTS[:5], 5)
            except TreetopError:
                failed += 1
                continue
            like = [same(found, answer) for answer in answers]
            assert any(like)
            seen[like.index(True)] += 1
    finally:
        stop.set()
        saver.join(30)
    assert saver.exitcode == 0 and all(seen) and failed <= LOADS[descriptors] // 10


def swap(folder, other):
    """Let another folder take the place of `folder`, whose files are removed."""
    folder.rename(folder.with_name("old"))
    other.rename(folder)
    shutil.rmtree(folder.with_name("old"))


@pytest.mark.parametrize("descriptors", [True, False], ids=["by descriptor", "by path"])
@pytest.mark.parametrize("place", range(0, 48, 5))
def test_a_swap_before_any_file_is_met(models, saved, tmp_path, monkeypatch, place, descriptors):
    """The folder is swapped right before the n-th file is opened."""
    monkeypatch.setattr("treetop.core.folder.DESCRIPTORS", descriptors)
    shutil.copytree(saved, tmp_path, dirs_exist_ok=True)
    real, opened = treetop.core.folder._open_file, []

    def opening(path, *rest):
        opened.append(path)
        if len(opened) == place + 1:
            swap(tmp_path / "m", tmp_path / "other")
        return real(path, *rest)

    monkeypatch.setattr("treetop.core.folder._open_file", opening)
    assert same(treetop.load(tmp_path / "m").rank(TEXTS, 5), models[1].rank(TEXTS, 5))


def test_a_folder_that_never_rests_is_told(saved, monkeypatch):
    monkeypatch.setattr("treetop.core.folder.DESCRIPTORS", False)
    monkeypatch.setattr("treetop.core.folder.Folder.replaced", lambda self: True)
    with pytest.raises(ModelError, match="replaced repeatedly while it was read. Load it when no process saves"):
        treetop.load(saved / "m")


# --- changes to labels ---


def test_changes_of_a_model_that_is_being_removed_are_not_left_out(models, saved, tmp_path, monkeypatch):
    """Its other files are read already when its changes are gone, which alone would be a model without any."""
    shutil.copytree(saved, tmp_path, dirs_exist_ok=True)
    treetop.load(tmp_path / "m").retire_labels(["L01"]).save(tmp_path / "m")
    real, swapped = edits.read_edits, []

    def reading(folder, *rest, **options):
        if not swapped:
            swapped.append(swap(tmp_path / "m", tmp_path / "other"))
        return real(folder, *rest, **options)

    monkeypatch.setattr(edits, "read_edits", reading)
    assert same(treetop.load(tmp_path / "m").rank(TEXTS, 5), models[1].rank(TEXTS, 5))


@pytest.mark.parametrize("step", ["_has_log", "_put", "_put_log", "_sweep"])
def test_a_change_of_labels_never_reaches_the_model_that_took_the_place(models, saved, tmp_path, monkeypatch, step):
    shutil.copytree(saved, tmp_path, dirs_exist_ok=True)
    real, done = getattr(edits, step), []

    def stepping(*args):
        if not done:
            done.append(swap(tmp_path / "m", tmp_path / "other"))
        return real(*args)

    model = treetop.load(tmp_path / "m").retire_labels(["L01"])
    with monkeypatch.context() as patch:
        patch.setattr(edits, step, stepping)
        with pytest.raises(WorkError, match="was replaced by another model in the meantime; the change is not saved"):
            model.save(tmp_path / "m")
    found = treetop.load(tmp_path / "m", check="full")
    assert same(found.rank(TEXTS, 5), models[1].rank(TEXTS, 5)) and found.edits is None


def test_the_first_change_may_come_while_a_model_is_opened(models, tmp_path, monkeypatch):
    """The log was not there yet; its first change is there when the folder is listed."""
    models[0].save(tmp_path / "m")
    changed = treetop.load(tmp_path / "m").retire_labels(["L01"])
    (tmp_path / "m/edits").mkdir()
    real, done = os.path.lexists, []

    def lexists(path):
        found = real(path)
        if str(path).endswith("log.json") and not done:
            done.append(found)
            changed.save(tmp_path / "m")
        return found

    monkeypatch.setattr(os.path, "lexists", lexists)
    assert treetop.load(tmp_path / "m").labels.status[1] == 1 and done == [False]


# --- data ---


@pytest.mark.parametrize("place", range(2))
def test_data_swapped_while_they_are_read_are_read_again(tmp_path, monkeypatch, place):
    old, new = toy.dataset(0), toy.dataset(1)
    new = dataclasses.replace(new, labels=LabelSet.of(list(new.labels.ids)[::-1]))
    for name, data in (("d", old), ("new", new)):
        write.write({"train": data, "test": data}, tmp_path / name)
    real, opened = lines.open_bytes, []

    def opening(file):
        opened.append(file)
        if len(opened) == place + 1:
            swap(tmp_path / "d", tmp_path / "new")
        return real(file)

    monkeypatch.setattr(lines, "open_bytes", opening)
    data = Dataset.read(tmp_path / "d", "test")
    assert (
        len(opened) > place
        and list(data.texts) == list(new.texts)
        and data.labels == new.labels
        and (data.Y != new.Y).nnz == 0
    )


def test_data_written_to_while_they_are_read_are_told(tmp_path, monkeypatch):
    toy.write_rows(toy.dataset(), tmp_path / "train.jsonl")
    real = jsonl.to_row

    def reading(*args):
        with (tmp_path / "train.jsonl").open("a") as file:
            file.write("\n")
        return real(*args)

    monkeypatch.setattr(jsonl, "to_row", reading)
    with pytest.raises(DataError, match="kept changing while it was read. Wait until nothing writes to it"):
        Dataset.read(tmp_path)
