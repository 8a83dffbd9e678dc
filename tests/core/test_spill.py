"""Arrays in files: the same values, nothing left behind, and a sentence where the disk is full."""

import errno
import os

import numpy as np
import pytest

import toy
import treetop
from treetop.core import spill
from treetop.core.errors import ResourceError
from treetop.core.forecast import Forecast
from treetop.core.texts import Texts, TextsBuilder

SETTINGS = {"tree": {"max_leaf": 5, "branching": 2}, "tfidf": {"min_df": 1}}


def in_file(array):
    while isinstance(array, np.ndarray) and array.base is not None:
        array = array.base
    return not isinstance(array, np.ndarray)


def test_large_arrays_lie_in_files_without_a_name_and_small_ones_in_memory(tmp_path):
    assert not in_file(spill.empty(1000, np.int64)) and not spill.spills(1e12)
    with spill.spilling(tmp_path, 4000) as place:
        large, small = spill.empty((100, 10), np.float32), spill.empty(999, np.float32)
        assert in_file(large) and large.shape == (100, 10) and not in_file(small)
        assert place.bytes_written == [4000] and spill.spills(4000) and not spill.spills(3999)
        large[:] = np.arange(10)
        assert [*tmp_path.iterdir()] == []
        assert in_file(spill.copied(large)) and (spill.copied(large) == large).all()
        assert spill.empty(0, np.int8).shape == (0,)
    assert (large[99] == np.arange(10)).all()  # it outlives the block


@pytest.mark.parametrize("least", [0, 100, 700_000])
def test_a_growing_array_is_that_of_its_parts_whether_in_memory_or_in_a_file(tmp_path, least):
    rng = np.random.default_rng(least)
    parts = [rng.integers(0, 255, n).astype(np.uint16) for n in (0, 3, 70_000, 1, 0, 200_000)]
    growing = spill.Growing(np.uint16)
    with spill.spilling(tmp_path, least):
        moved, joined = spill.Growing(np.uint16), spill.joined(parts, np.uint16)
        for part in parts:
            assert growing.append(part) == moved.append(part)
    for made in (growing.array(), moved.array(), joined):
        np.testing.assert_array_equal(made, np.concatenate(parts))
        assert made.dtype == np.uint16
    assert in_file(joined) == (max(least, 1) <= 540_008) and not in_file(growing.array())
    assert len(spill.Growing(np.int8).array()) == 0


def test_texts_that_are_read_into_files_are_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr("treetop.core.texts.BLOCK", 64)
    strings = ["", "a cat", "Größe", "図書館", "x" * 300, ""] * 5
    with spill.spilling(tmp_path, 1):
        builder = TextsBuilder()
        for string in strings:
            builder.add(string)
            assert len(builder) and builder._offsets[-1] == len("".join(strings[: len(builder)]).encode())
        made = builder.build()
    assert in_file(made.blob) and made == Texts.of(strings) and [*made] == strings
    assert made.take([4, 1]) == Texts.of(strings).take([4, 1])


@pytest.mark.parametrize("settings", [{}, {"linear": {"negatives": "tfn+man", "storage": "float16"}, "trees": 2}])
def test_models_have_the_same_bytes_with_their_arrays_in_files(tmp_path, settings):
    data = toy.dataset(n=700)
    plain = treetop.fit("xr_linear", data, settings=SETTINGS | settings, out=tmp_path / "plain")
    with spill.spilling(tmp_path, 1) as place:
        spilled = treetop.fit("xr_linear", data, settings=SETTINGS | settings, out=tmp_path / "spilled")
    assert len(place.bytes_written) > 20 and spilled.seal == plain.seal
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plain", "spilled"]


def test_a_job_that_would_not_fit_uses_files_within_its_budget(tmp_path, monkeypatch, caplog):
    needs = Forecast(5e9, 1e6, 1.0, spilled=2e8, files=1e9)
    assert needs.needs_files({"memory": 1e9}, tmp_path) and needs.in_files().memory == 2e8
    assert not needs.needs_files({"memory": 1e9}, None) and not needs.needs_files({"memory": 1e8}, tmp_path)
    assert not Forecast(5e9, 1e6, 1.0).needs_files({"memory": 1e9}, tmp_path)
    with pytest.raises(ResourceError, match=r"of disk space needed, .* available"):
        Forecast(5e9, 1e6, 1.0, spilled=2e8, files=1e18).in_files().check({"memory": 1e9}, tmp_path / "m")
    data = toy.dataset(n=700)
    recipe = treetop.training.plan("xr_linear").module
    monkeypatch.setattr(recipe, "forecast", lambda *_: Forecast(5e8, 1e6, 1.0, shrinks=True, spilled=2e8, files=1e6))
    with caplog.at_level("INFO", logger="treetop"):
        spilled = treetop.fit("xr_linear", data, settings=SETTINGS, budget="memory=400MB", out=tmp_path / "spilled")
    assert sum("large arrays lie in files" in line for line in caplog.messages) == 1
    plain = treetop.fit("xr_linear", data, settings=SETTINGS, out=tmp_path / "plain")
    assert spilled.seal == plain.seal


def test_a_full_disk_is_said_in_a_sentence(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    said = r"cannot hold .* that memory has no room for \(No space left on device\)\. Free disk space"
    with spill.spilling(tmp_path, 1):
        monkeypatch.setattr(os, "posix_fallocate", full)
        with pytest.raises(ResourceError, match=said):
            spill.empty(5000, np.int8)
        growing = spill.Growing(np.int8)
        monkeypatch.setattr(spill.Spill, "file", lambda self: Full())
        with pytest.raises(ResourceError, match=said):
            growing.append(np.zeros(10, np.int8))
    monkeypatch.undo()
    with spill.spilling(tmp_path / "gone", 1), pytest.raises(ResourceError, match="No such file"):
        spill.Spill(tmp_path / "gone", 1).file()


class Full:
    def write(self, _):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
