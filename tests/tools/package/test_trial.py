"""The trial ends at the first step that fails, with what the command wrote; `make package` runs all of it."""

import subprocess
import sys

import pytest

from tools.package import rooms, trial


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    return trial.Trial()


def test_commands_run_without_the_repository_and_without_settings_of_this_process(here, tmp_path):
    code = "import os; print(os.environ.get('PYTHONPATH'), os.environ['HOME'])"
    assert here.run("look", sys.executable, "-c", code) == f"None {tmp_path}\n"
    assert list(here.seconds) == ["look"]


def test_a_command_that_fails_ends_it(here):
    with pytest.raises(SystemExit, match=r"(?s)^step: .* ended with 3:\nout\nwhy\n$"):
        here.run("step", sys.executable, "-c", "import sys; print('out'); print('why', file=sys.stderr); sys.exit(3)")
    with pytest.raises(SystemExit, match="import: treetop came from .*, not from"):  # of an editable installation
        trial.first_steps(here)


def test_the_sentence_without_numba_is_what_the_command_says():
    code = "import sys; sys.modules['numba'] = None; sys.argv = ['treetop', 'demo']\n"
    code += "from treetop.cli.start import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, f"error: {trial.ABSENT}\n")


def test_a_command_in_a_root_gets_nothing_of_this_environment(monkeypatch):
    monkeypatch.setattr(rooms, "CERTIFICATES", [])
    words = rooms.Debian("trixie", "3.13")._words("/root", "pip", "--version")
    assert words[:2] == ["unshare", "--mount"] and words[words.index("env") + 1] == "-i"
    assert words[-2:] == ["pip", "--version"] and not [word for word in words if "PIP" in word]
