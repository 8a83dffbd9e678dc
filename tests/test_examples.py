"""The scripts of examples/ run, are short, and need nothing beside themselves."""

import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
NEEDS = {"07": "sklearn", "08": "rdflib", "09": "fastapi"}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda file: file.stem)
def test_examples_run(script, tmp_path, monkeypatch, capsys):
    if module := NEEDS.get(script.stem[:2]):
        pytest.importorskip(module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # of the server that one of them starts
    monkeypatch.setattr(sys, "argv", [str(script)])
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out


def test_examples_are_numbered_and_short():
    assert [script.stem[:3] for script in SCRIPTS] == [f"{i + 1:02}_" for i in range(len(SCRIPTS))]
    assert [script.name for script in SCRIPTS if len(script.read_text(encoding="utf-8").splitlines()) >= 40] == []
