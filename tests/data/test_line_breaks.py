"""Line breaks that only some tools know (U+2028, U+0085, ...) do not end a row, neither in writing nor in reading."""

import io
import sys

import numpy as np
import pytest
from scipy import sparse

from treetop.core.dataset import Dataset, LabelSet
from treetop.core.errors import InputError
from treetop.core.texts import Texts
from treetop.data.frame import from_lists
from treetop.data.inputs import read_inputs
from treetop.data.read import read
from treetop.data.write import write

BREAKS = ["a\u2028b", "\u2029", "x\x85", "\vy\f", "\x1c\x1d\x1e", "\ufeffz", " \u3000 "]
TEXTS = ["\ufefffirst", *BREAKS]
ANY_ID = ("jsonl", "csv", "tsv", "parquet", "lf", "huggingface", "annif")
NUMBERED, WORDS = ("xc", "pecos"), ("fasttext", "attentionxml")


@pytest.mark.parametrize("format", [*ANY_ID, *NUMBERED, *WORDS])
@pytest.mark.parametrize("gzip", [False, True])
def test_texts_and_ids_come_back(tmp_path, format, gzip):
    if format in ("parquet", "huggingface"):
        pytest.importorskip("pyarrow")
    ids = [str(i) if format in NUMBERED else f"l{i}" for i in range(len(TEXTS))]
    labels = LabelSet.of(TEXTS if format in ANY_ID else ids)
    data = Dataset(Texts.of(TEXTS), sparse.csr_matrix(np.eye(len(TEXTS), dtype=np.float32)), labels)
    write(data, tmp_path / "out", format, gzip=gzip)
    again = read(tmp_path / "out")
    assert list(again.texts) == TEXTS
    assert {*again.labels.ids} == {*labels.ids}
    assert (again.align(labels).Y != data.Y).nnz == 0


def test_a_first_label_that_begins_with_a_bom_comes_back(tmp_path):
    data = from_lists(["a", "b"], [["\ufeffx"], ["x"]])
    write(data, tmp_path / "out", "attentionxml")
    assert list(read(tmp_path / "out").labels.ids) == ["\ufeffx", "x"]


@pytest.mark.parametrize("format", ["attentionxml", "fasttext"])
@pytest.mark.parametrize("letter", ["\u2028", "\x85", "\v", "\x1c"])
def test_ids_a_format_would_split_are_refused(tmp_path, format, letter):
    with pytest.raises(InputError, match="this format cannot hold"):
        write(from_lists(["a"], [[f"x{letter}y"]]), tmp_path / "out", format)


def test_only_line_breaks_become_blanks_where_losses_are_allowed(tmp_path):
    write(from_lists(["a\u2028b\r\nc\rd\ne\x85f"], [["x"]]), tmp_path / "out", "fasttext", lossy=True)
    assert list(read(tmp_path / "out").texts) == ["a\u2028b c d e\x85f"]


def test_standard_input_ends_lines_as_a_file_does(tmp_path, monkeypatch):
    content = "a\rb\r\r\nc\u2028d\n\ufeffe".encode()
    (tmp_path / "in.txt").write_bytes(content)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    piped = [given.text for given in read_inputs("-")]
    assert piped == [given.text for given in read_inputs(str(tmp_path / "in.txt"))] == ["a\rb\r", "c\u2028d", "\ufeffe"]
