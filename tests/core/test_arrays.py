import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from treetop.core.arrays import read_arrays, release, write_arrays
from treetop.core.errors import ModelError

ARRAYS = {"b": np.arange(7, dtype=np.float32), "a": np.zeros((0, 3), np.int64), "c": np.array([[True], [False]])}


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
        ((2).to_bytes(8, "little") + b"[]", "not a table of arrays"),
        ((2).to_bytes(8, "little") + b"{x", "not valid JSON"),
        (header({"a": 1}), "entry of array 'a' is malformed"),
        (header({"a": {"dtype": "O", "shape": [1], "data_offsets": [0, 8]}}, bytes(8)), "malformed"),
        (header({"a": {"dtype": "F32", "shape": [2**62, 4], "data_offsets": [0, 0]}}), "has shape"),
        (header({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}, bytes(4)), "outside the file"),
        (header({"a": {"dtype": "U8", "shape": [9], "data_offsets": [0, 9]}}, bytes(4)), "outside the file"),
        (header({"a": {"dtype": "U8", "shape": [4], "data_offsets": [4, 8]}}, bytes(8)), "overlap or leave holes"),
        (
            header({"a": {"dtype": "U8", "shape": [1] * 99, "data_offsets": [0, 1]}}, bytes(1)),
            "no array can have",
        ),
        (header({"a": {"dtype": "U8", "shape": [0, 2**62, 2**62], "data_offsets": [0, 0]}}), "no array can have"),
        (header({"a": {"dtype": "U8", "shape": [10**30], "data_offsets": [0, 0]}}), "not valid JSON"),
        ((20_000).to_bytes(8, "little") + b"[" * 20_000, "not valid JSON"),
        (header({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}, bytes(8)), "cover 4 of 8 bytes"),
    ],
)
def test_broken_array_files_are_refused_by_name(tmp_path, raw, reason):
    (tmp_path / "x").write_bytes(raw)
    with pytest.raises(ModelError, match=reason) as caught:
        read_arrays(tmp_path / "x")
    assert str(tmp_path / "x") in str(caught.value)


def test_letting_go_keeps_the_values(tmp_path):
    write_arrays(tmp_path / "a", {"x": np.arange(100_000, dtype=np.float32)})
    x = read_arrays(tmp_path / "a")["x"]
    assert x.sum() > 0
    release(x)
    assert np.array_equal(x, np.arange(100_000)) and not x.flags.writeable
    release(np.zeros(3))  # memory of its own stays
