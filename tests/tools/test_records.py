import subprocess
import sys

import pytest

from tools import records
from treetop.core.errors import InputError


def line(name, value=0.0, **more):
    return {"format": 1, "name": name, "a": value, **more}


def test_records_are_rounded_and_read_back(tmp_path):
    file = tmp_path / "deep" / "a.jsonl"
    records.append(file, line("x", 1.23456789, b=[2, {"c": 123456.789}]))
    assert records.read(file) == {("x", 1): line("x", 1.23457, b=[2, {"c": 123457.0}])}
    assert list(file.parent.iterdir()) == [file]


def test_a_later_line_replaces_an_earlier_one_of_its_name_and_repetition(tmp_path):
    file = tmp_path / "a.jsonl"
    for values in (line("x", 1.0, rep=1), line("x", 2.0, rep=2), line("y", 3.0, rep=1), line("x", 4.0, rep=1)):
        records.append(file, values)
    assert {key: values["a"] for key, values in records.read(file).items()} == {
        ("x", 1): 4.0,
        ("x", 2): 2.0,
        ("y", 1): 3.0,
    }


def test_processes_that_add_at_once_tear_no_line(tmp_path):
    file = tmp_path / "a.jsonl"
    code = (
        "import sys; from pathlib import Path; from treetop.core.provenance import append\n"
        "for rep in range(1000):\n"
        "    append(Path(sys.argv[1]), {'format': 1, 'name': sys.argv[2], 'rep': rep, 'a': 'x' * 3000})"
    )
    children = [subprocess.Popen([sys.executable, "-c", code, str(file), name]) for name in "ab"]
    assert [child.wait() for child in children] == [0, 0]
    assert set(records.read(file)) == {(name, rep) for name in "ab" for rep in range(1000)}


@pytest.mark.parametrize("text", ["[]", '{"format": 99, "name": "y"}', '{"format": 1}', '{"format": 1, "name'])
def test_damaged_lines_are_refused_by_number_and_cost_no_other(tmp_path, text):
    file = tmp_path / "bad.jsonl"
    records.append(file, line("x"))
    with file.open("a") as stream:
        stream.write(text)
    records.append(file, line("z"))
    with pytest.raises(InputError, match=r"bad\.jsonl:2: not a record .* Delete this line"):
        records.read(file)
    assert set(records.usable(file)) == {("x", 1), ("z", 1)}
    assert records.usable(tmp_path / "absent.jsonl") == {}


def test_numbers_that_are_none_are_not_written(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        records.write(tmp_path / "a.json", {"format": 1, "a": float("nan")})
    with pytest.raises(ValueError, match="JSON"):
        records.append(tmp_path / "a.jsonl", line("x", float("inf")))
    assert not list(tmp_path.iterdir())
