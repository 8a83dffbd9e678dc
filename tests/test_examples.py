"""The scripts and notebooks of examples/ run, are short, and need nothing beside themselves."""

import json
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
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


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda file: file.stem)
def test_notebooks_run(notebook, tmp_path, monkeypatch):
    """Without jupyter: the cells of code, one after the other; notebooks are kept without outputs."""
    monkeypatch.chdir(tmp_path)
    book = json.loads(notebook.read_text(encoding="utf-8"))
    names: dict = {}
    for i, cell in enumerate(cell for cell in book["cells"] if cell["cell_type"] == "code"):
        assert cell["outputs"] == [] and cell["execution_count"] is None
        exec(compile("".join(cell["source"]), f"{notebook.name}, cell {i}", "exec"), names)
