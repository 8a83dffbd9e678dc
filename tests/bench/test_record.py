import json

import pytest

from treetop.bench import record
from treetop.core.errors import InputError


def test_provenance_says_enough_to_repeat_a_run(tmp_path):
    made = record.provenance(seed=7, root=tmp_path, command=["treetop", "bench"])
    assert made["seed"] == 7 and made["command"] == "treetop bench" and made["commit"] == "unknown"
    assert made["machine"]["cores"] >= 1 and made["machine"]["memory_gb"] > 0 and len(made["machine"]["load"]) == 3
    assert "hostname" not in json.dumps(made) and str(tmp_path) not in json.dumps(made)


def test_the_commit_shows_changed_files(tmp_path):
    import subprocess

    def git(*words):
        subprocess.run(["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True)

    git("init", "-q")
    (tmp_path / "treetop").mkdir()
    code = tmp_path / "treetop" / "a.py"
    code.write_text("1\n")
    git("add", "-A")
    git("commit", "-q", "-m", "first")
    clean = record.commit(tmp_path)
    assert len(clean) == 12
    code.write_text("2\n")
    assert record.commit(tmp_path) == clean + "+"


def test_records_are_rounded_and_read_back(tmp_path):
    file = tmp_path / "deep" / "a.json"
    record.write(file, {"format": 1, "a": 1.23456789, "b": [2, {"c": 123456.789}], "d": "x"})
    assert record.read(file) == {"format": 1, "a": 1.23457, "b": [2, {"c": 123457.0}], "d": "x"}
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("text", ["", "[]", '{"format": 99}', '{"format": 1'])
def test_damaged_records_are_refused_by_name(tmp_path, text):
    file = tmp_path / "bad.json"
    file.write_text(text)
    with pytest.raises(InputError, match=r"bad\.json"):
        record.read(file)


def test_numbers_that_are_none_are_not_written(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        record.write(tmp_path / "a.json", {"format": 1, "a": float("nan")})
    assert not (tmp_path / "a.json").exists()


def test_commands_name_no_place_of_this_machine(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/opt/bin/treetop", "bench", "--data", "/home/me/shared/data", "--out=/srv/a/b"])
    assert record._command() == ["treetop", "bench", "--data", "shared/data", "--out=a/b"]
