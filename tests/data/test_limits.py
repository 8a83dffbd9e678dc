"""What would fill the memory is refused with a sentence that names the limit and how to raise it."""

import gzip
import io
import subprocess
import sys
import time

import numpy as np
import pytest
from scipy import sparse

from treetop.core.errors import ConfigError, DataError
from treetop.data.inputs import read_inputs, whole_input
from treetop.data.parse.limits import Limits
from treetop.data.read import read
from treetop.data.validate import validate

RAISE = "raise the limit with TREETOP_MAX_{0}, for example TREETOP_MAX_{0}={1}."
LINE = f"the line is longer than {{}} MB, the most that is read. Split it, or {RAISE.format('LINE', '256MB')}"


@pytest.fixture
def small(monkeypatch):
    """Limits of a test: a line of 10 kB, a cell of 2 kB, 5 columns."""
    for name, value in {"LINE": "10KB", "CELL": "2000", "COLUMNS": "5"}.items():
        monkeypatch.setenv(f"TREETOP_MAX_{name}", value)


def refused(path, **options):
    with pytest.raises(DataError) as error:
        read(path, **options)
    return str(error.value).replace(str(path), "PATH")


def test_the_defaults_are_those_of_the_documentation():
    assert Limits.of_environment() == Limits(line=64_000_000, cell=16_000_000, columns=10_000, expansion=1_000)


def test_a_small_gzip_file_with_an_endless_line_is_refused(tmp_path):
    with gzip.open(tmp_path / "train.jsonl.gz", "wb", 1) as out:
        out.write(b'{"text": "')
        for _ in range(66):
            out.write(b"a b " * 250_000)
    assert refused(tmp_path) == f"PATH/train.jsonl.gz:1: {LINE.format(64)}"
    assert validate(tmp_path).problems[0].endswith(LINE.format(64))


@pytest.mark.parametrize("name", ["train.csv", "train.txt", "train.svm"])
def test_every_format_has_the_same_limit(tmp_path, small, name):
    start = {"train.csv": "text,labels\n", "train.txt": "__label__a ", "train.svm": "a "}[name]
    (tmp_path / name).write_text(start + "1:1 " * 4000)
    assert refused(tmp_path) == f"PATH/{name}:{2 if 'csv' in name else 1}: {LINE.format(0.01)}"


def test_a_longer_line_is_read_where_the_limit_is_raised(tmp_path, small, monkeypatch):
    (tmp_path / "train.jsonl").write_text(f'{{"text": "{"a" * 20_000}", "labels": ["x"]}}\n')
    assert refused(tmp_path) == f"PATH/train.jsonl:1: {LINE.format(0.01)}"
    monkeypatch.setenv("TREETOP_MAX_LINE", "1MB")
    assert len(read(tmp_path).texts[0]) == 20_000


def test_gzip_data_that_grow_out_of_proportion_are_refused(tmp_path, small, monkeypatch):
    (tmp_path / "train.txt.gz").write_bytes(gzip.compress(b"__label__a b\n" + b"__label__a " * 500 + b"\n" * 40_000))
    monkeypatch.setenv("TREETOP_MAX_EXPANSION", "20")
    assert refused(tmp_path) == (
        "PATH/train.txt.gz: the gzip data unpack to more than 20 times their size. If they are what you expect, "
        + RAISE.format("EXPANSION", "5000")
    )
    monkeypatch.setenv("TREETOP_MAX_EXPANSION", "5000")
    assert len(read(tmp_path)) == 40_001


def test_a_row_of_a_table_may_not_go_on_without_end(tmp_path, small):
    (tmp_path / "train.csv").write_text('text,labels\n"open' + "a line\n" * 2000)
    sentence = "the row that ends here is longer than 0.01 MB, the most that is read. Close its quotes, or "
    assert refused(tmp_path) == f"PATH/train.csv:1429: {sentence}{RAISE.format('LINE', '256MB')}"


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_cell_has_a_limit(tmp_path, small, ending):
    file = tmp_path / f"train.{ending}"
    if ending == "csv":
        file.write_text(f"text,labels\na,x\n{'b' * 2001},x\n")
    else:
        pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.table({"text": ["a", "b" * 2001], "labels": [["x"], ["x"]]}), file)
    sentence = "a cell is longer than 0.002 MB, the most that is read. Split it, or "
    place = 3 if ending == "csv" else 2
    assert refused(tmp_path) == f"PATH/{file.name}:{place}: {sentence}{RAISE.format('CELL', '64MB')}"


def test_many_columns_are_refused_at_once(tmp_path):
    (tmp_path / "train.csv").write_text("text,labels," + ",".join(f"c{i}" for i in range(40_000)) + "\n")
    started = time.monotonic()
    sentence = "the header has 40,002 columns, at most 10,000 are read. Remove some, or "
    assert refused(tmp_path) == f"PATH/train.csv:1: {sentence}{RAISE.format('COLUMNS', '50000')}"
    assert time.monotonic() - started < 5


def test_a_wide_header_is_not_repeated_in_a_message(tmp_path):
    (tmp_path / "train.csv").write_text(",".join(f"c{i}" for i in range(5000)) + "\n")
    assert "c10, c11 and 4,988 more)" in refused(tmp_path)


def test_standard_input_obeys_the_limit(monkeypatch, small):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\n" + bytes(20_000))))
    texts = read_inputs("-")
    assert next(texts).text == "a"
    with pytest.raises(DataError, match="^standard input:2: the line is longer than 0.01 MB"):
        next(texts)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a line\n" * 2000)))
    with pytest.raises(DataError, match="^standard input: more than 0.01 MB for one text"):
        whole_input()


def test_an_endless_file_is_refused_by_predict():
    with pytest.raises(DataError, match="^/dev/zero:1: the line is longer than 64 MB"):
        list(read_inputs("/dev/zero"))


CODE = """
import resource, sys
from treetop.data.parse.numbered import parse_pairs
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
line = " ".join(f"{i}:1" for i in range(600_000))
before = peak()
places, values = parse_pairs(line)
assert len(places) == len(values) == 600_000 and places[-1] == 599_999
print((peak() - before) / len(line))
"""


def test_a_long_row_of_features_takes_a_few_times_its_size():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 8  # it took 40 times


LITERAL = """
import resource
from treetop.data.formats.skos import _statements
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
text = '<urn:a> <urn:b> "' + "a b " * 500_000 + '" .'
before = peak()
assert len(list(_statements(text))) == 1
print((peak() - before) / len(text))
"""


def test_a_long_literal_of_turtle_takes_a_few_times_its_size():
    done = subprocess.run([sys.executable, "-c", LITERAL], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 20  # it took 170 times


def test_a_matrix_that_unpacks_out_of_proportion_is_refused(tmp_path, small, monkeypatch):
    monkeypatch.setenv("TREETOP_MAX_EXPANSION", "20")
    sparse.save_npz(tmp_path / "Y.trn.npz", sparse.csr_matrix(np.ones((200, 50), np.float32)))
    (tmp_path / "X.trn.txt").write_text("a\n" * 200)
    assert "unpacks to more than 20 times its size; if that is right, raise the limit with" in refused(tmp_path)


@pytest.mark.parametrize("value", ["much", "-1", "0", "10 parsecs", "1e9", "٣"])
def test_a_limit_that_cannot_be_read_is_refused(tmp_path, monkeypatch, value):
    (tmp_path / "train.jsonl").write_text('{"text": "a", "labels": ["x"]}\n')
    monkeypatch.setenv("TREETOP_MAX_LINE", value)
    sentence = f"TREETOP_MAX_LINE: cannot read '{value}'. Write a whole number and a unit, such as 256MB."
    with pytest.raises(ConfigError) as error:
        read(tmp_path)
    assert str(error.value) == sentence


def test_a_pipe_is_read_to_its_end(tmp_path):
    """Progress is counted in places of a file, which a pipe does not have."""
    import os
    import threading

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    feeder = threading.Thread(target=lambda: pipe.write_bytes(b"a text\n" * 3000))
    feeder.start()
    assert len(list(read_inputs(str(pipe)))) == 3000
    feeder.join()
