"""Documentation cannot rot: Python blocks run, commands and files it names exist."""

import doctest
import importlib
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FILES = [file for file in (ROOT / "treetop").rglob("*.py") if ">>> " in file.read_text(encoding="utf-8")]
MODULES = sorted(".".join(f.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for f in FILES)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.S):
        exec(compile(block, str(page), "exec"), names)


def test_the_readme_shows_what_its_example_prints(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    found = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.S)
    exec(compile(found[1], "README.md", "exec"), {})
    assert capsys.readouterr().out == found[2]


def test_the_changelog_has_each_kind_of_change_once_and_in_order():
    order = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
    for version in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1:]:
        kinds = re.findall(r"^### (.*)$", version, flags=re.M)
        assert kinds == [kind for kind in order if kind in kinds]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_say_what_happens(name):
    done = doctest.testmod(importlib.import_module(name))
    assert done.attempted > 0 and done.failed == 0


def test_files_named_in_the_architecture_exist():
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    for name in re.findall(r"`([a-z_]+/(?:[a-z_]+\.py)?)`", text):
        assert (ROOT / "treetop" / name).exists() or (ROOT / name).exists(), name
    for name in re.findall(r"`([a-z_]+\.py)`", text):
        assert any((ROOT / "treetop").rglob(name)), name


def test_generated_pages_and_tables_are_up_to_date():
    from tools.docs.generated import stale
    from tools.docs.pages import pages
    from tools.docs.tables import scores, update

    pytest.importorskip("torch")  # settings of neural recipes are read from their modules
    assert stale(ROOT / "docs", pages(ROOT / "docs")) == [], "run `make docs`"
    listed = json.loads((ROOT / "treetop/recipes/scores.json").read_text(encoding="utf-8"))
    assert listed == scores(ROOT / "benchmarks/results"), "run `make docs`"
    assert [page.name for page in PAGES if update(page, ROOT / "benchmarks/results", check=True)] == [], (
        "run `make docs`"
    )


def test_figures_are_up_to_date_and_have_records():
    from tools.docs.figures import figures
    from tools.docs.generated import stale

    made, folder = figures(ROOT / "benchmarks/results"), ROOT / "docs/figures"
    assert stale(folder, made) == [], "run `make docs`"
    assert {file.name for file in folder.glob("gandalf-*.svg")} <= made.keys()


def test_every_cell_of_the_comparison_has_its_evidence():
    text, _, evidence = (ROOT / "docs/comparison.md").read_text(encoding="utf-8").partition("\n## Evidence\n")
    listed = re.findall(r"^\| ([A-Z]\d+) \|", evidence, flags=re.M)
    assert set(re.findall(r"\b([PAONLS]\d{1,2})\b", text)) == set(listed) and len(listed) == len(set(listed))
    tables = text.partition("\n| licence ")[0]
    for line in re.findall(r"^\| (?!\|)(?!---)(.*) \|$", tables, flags=re.M):
        name, ours, *theirs = re.split(r" \| ", line)
        if name not in {"made for", "input"}:
            assert "](" in ours, name
        for cell in theirs:
            assert cell in {"–", "not looked at"} or re.search(r"[PAONLS]\d", cell), f"{name}: {cell}"


def test_readme_is_short():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert sum(not line.startswith("|") for line in lines) <= 120  # rows of tables aside: every recipe has one


def test_files_that_docstrings_name_exist():
    """By the path from the package, from the folder of the docstring, or from the folder above."""
    gone = []
    for file in sorted([*(ROOT / "treetop").rglob("*.py"), *(ROOT / "tools").rglob("*.py")]):
        for name in re.findall(r"`([\w/]+\.py)`", file.read_text(encoding="utf-8")):
            homes = (ROOT, ROOT / "treetop", ROOT / "tests", file.parent, file.parent.parent)
            if not any((home / name).is_file() for home in homes):
                gone.append(f"{file.relative_to(ROOT)}: {name}")
    assert gone == []
