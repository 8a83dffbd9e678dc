"""Every `treetop` command and option that the documentation names exists."""

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from typer.main import get_command

from treetop.cli.main import app

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if page.name != "renamed.md"]  # which has old names
CODE = re.compile(r"^```(\w*)\n(.*?)^```|^((?: {4,}[^\n]*\n)+)|`([^`\n]+)`", flags=re.M | re.S)
ENDS = {"|", "&&", "||", ";", "&", ">", "<", "2>", ">>"}
FOREIGN = {  # options of other programs that stand by themselves in a text
    "moving.md": {"--generate-params-skeleton"},
}


def commands(command=None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], set[str]]]:
    """Path of every command, and its options."""
    command = command or get_command(app)
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from commands(inner, (*path, name))
    options = {
        word for one in command.params if one.param_type_name == "option" for word in one.opts + one.secondary_opts
    }
    yield path, options | {"--help"}


KNOWN = dict(commands())
GROUPS = {path[:i] for path in KNOWN for i in range(len(path))}
ANY = set().union(*KNOWN.values())


def snippets(page: Path) -> Iterator[str]:
    """Lines of blocks, and code within sentences."""
    for language, block, indented, inline in CODE.findall(page.read_text(encoding="utf-8")):
        if inline:
            yield inline
        elif language in ("", "sh"):
            yield from re.sub(r"\\\n\s*", "", block or indented).splitlines()


def called(line: str) -> Iterator[list[str]]:
    """The words behind each `treetop` of a line, up to a pipe, a comment or the like."""
    try:
        words = shlex.split(line.strip(), comments=True)
    except ValueError:  # a quote that is prose
        words = line.split("#")[0].split()
    for i, word in enumerate(words):
        if word == "treetop" and (i == 0 or words[i - 1] in ENDS or re.search(r"\||-m$|^[A-Z_]+=", words[i - 1])):
            rest = words[i + 1 :]
            yield rest[: next((j for j, one in enumerate(rest) if one in ENDS), len(rest))]


def faults(words: list[str]) -> Iterator[str]:
    path: tuple[str, ...] = ()
    while len(path) < len(words) and (*path, words[len(path)]) in KNOWN:
        path = (*path, words[len(path)])
    rest = words[len(path) :]
    if rest and path in GROUPS and re.fullmatch(r"[a-z]+", rest[0]):
        yield f"treetop {' '.join((*path, rest[0]))}"
    for word in rest:
        option = word.split("=")[0].rstrip(",;.:)")
        if re.fullmatch(r"--?[a-z][\w-]*", option) and option not in KNOWN[path]:
            yield f"treetop {' '.join(path)} {option}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_and_options_exist(page):
    found = [fault for line in snippets(page) for words in called(line) for fault in faults(words)]
    alone = [line for line in snippets(page) if re.fullmatch(r"--[a-z][\w-]*", line)]
    assert found == []
    assert set(alone) - ANY - FOREIGN.get(page.name, set()) == set()


def test_wrong_ones_would_be_found():
    lines = ["treetop fly away", "echo a | treetop predict m --k 5", "treetop data states x", "treetop labels ad m"]
    found = [fault for line in lines for words in called(line) for fault in faults(words)]
    assert found == ["treetop fly", "treetop predict --k", "treetop data states", "treetop labels ad"]


def test_commands_are_found_at_all():
    assert sum(1 for page in PAGES for line in snippets(page) for _ in called(line)) > 200


def test_settings_and_presets_exist():
    pytest.importorskip("torch")  # settings of neural recipes are read from their modules
    from treetop.core import registry
    from treetop.core.config import describe

    wrong = []
    for page in PAGES:
        for words in (words for line in snippets(page) for words in called(line)):
            if words[:1] != ["fit"] or len(words) < 2 or words[1] not in registry.names("recipe"):
                continue
            settings = {row[0] for row in describe(registry.find("recipe", words[1]).Config)}
            for option, value in pairwise(words):
                if option == "--set" and value.split("=")[0] not in settings:
                    wrong.append(f"{page.name}: {words[1]} --set {value}")
                preset = ROOT / "treetop" / "presets" / words[1] / f"{value}.yaml"
                if option == "--preset" and value.islower() and "." not in value and not preset.exists():
                    wrong.append(f"{page.name}: {words[1]} --preset {value}")
    assert wrong == []


def test_presets_of_published_data_sets_exist():
    text = (ROOT / "docs/packs.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(paper-[\w.-]+)` \| (.*) \|$", text, flags=re.M)
    presets = ROOT / "treetop" / "presets"
    named = {(name, preset) for preset, names in rows for name in re.findall(r"`(\w+)`", names)}
    assert {(file.parent.name, file.stem) for file in presets.rglob("*.yaml")} >= named and len(named) > 20
