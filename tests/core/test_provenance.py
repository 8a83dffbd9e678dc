import json
import subprocess

from treetop.core import provenance


def test_provenance_says_enough_to_repeat_a_run(tmp_path):
    made = provenance.provenance(seed=7, root=tmp_path, command=["treetop", "bench"])
    assert made["seed"] == 7 and made["command"] == "treetop bench" and made["commit"] == "unknown"
    assert made["machine"]["cores"] >= 1 and made["machine"]["memory_gb"] > 0 and len(made["machine"]["load"]) == 3
    assert "hostname" not in json.dumps(made) and str(tmp_path) not in json.dumps(made)


def test_the_commit_shows_changed_files(tmp_path):
    def git(*words):
        subprocess.run(["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True)

    git("init", "-q")
    (tmp_path / "treetop").mkdir()
    code = tmp_path / "treetop" / "a.py"
    code.write_text("1\n")
    git("add", "-A")
    git("commit", "-q", "-m", "first")
    clean = provenance.commit(tmp_path)
    assert len(clean) == 12
    assert provenance.commit(tmp_path / "treetop") == "unknown"  # a repository that holds no folder treetop here
    code.write_text("2\n")
    assert provenance.commit(tmp_path) == clean + "+"


def test_commands_name_no_place_of_this_machine(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/opt/bin/treetop", "bench", "--data", "/home/me/shared/data", "--out=/srv/a/b"])
    assert provenance._command() == ["treetop", "bench", "--data", "shared/data", "--out=a/b"]


def test_versions_name_what_is_installed():
    found = provenance.versions()
    assert found["treetop"] == provenance.VERSION and {"numpy", "scipy", "numba"} <= set(found)
