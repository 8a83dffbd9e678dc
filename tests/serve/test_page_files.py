"""The page's files: complete, without inline scripts or styles, without other sites, and in the wheel."""

import re
import tomllib
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "treetop" / "serve" / "page"
FILES = sorted(file for file in PAGE.iterdir() if file.is_file())
SCRIPTS = [file for file in FILES if file.suffix == ".js"]
LONGEST, WIDEST = 250, 120  # lines of a script, and letters of a line
NAMESPACES = {"http://www.w3.org/2000/svg"}  # names, never fetched


class Tags(HTMLParser):
    """What a page asks of a browser: tags with attributes, and text inside scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inline: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] in {"script", "style"} and data.strip():
            self.inline.append(data)


@pytest.fixture(scope="module")
def tags() -> Tags:
    found = Tags()
    found.feed((PAGE / "index.html").read_text(encoding="utf-8"))
    return found


def imports(file: Path) -> list[str]:
    return re.findall(r'^(?:import|export) .*?from "([^"]+)";', file.read_text(encoding="utf-8"), re.M | re.S)


def test_nothing_runs_or_is_styled_inline(tags):
    assert tags.inline == []
    assert not [tag for tag, _ in tags.tags if tag in {"style", "base", "object", "embed"}]
    written = [name for _, attributes in tags.tags for name in attributes]
    assert not [name for name in written if name == "style" or name.startswith("on")]


def test_the_files_it_refers_to_exist(tags):
    named = [value for _, attributes in tags.tags for key, value in attributes.items() if key in {"src", "href"}]
    assets = [name for name in named if not name.startswith("#")]
    assert "page/app.js" in assets and "page/style.css" in assets
    for name in assets:
        assert name.startswith("page/"), name
        assert (PAGE / name.removeprefix("page/")).is_file(), name


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: file.name)
def test_imports_lead_to_files_beside(file):
    for name in imports(file):
        assert name.startswith("./"), name
        assert (PAGE / name).is_file(), f"{file.name} imports {name}"


def test_no_file_lies_there_unused(tags):
    named = " ".join(str(value) for _, attributes in tags.tags for value in attributes.values())
    used = {name for file in SCRIPTS for name in imports(file)}
    for file in FILES:
        assert file.name == "index.html" or f"page/{file.name}" in named or f"./{file.name}" in used, file.name


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_no_other_site_is_asked(file):
    text = file.read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[\w./-]+", text)) <= NAMESPACES
    assert not re.search(r"""["'(]//\w""", text), "an address without a scheme"
    assert "@import" not in text


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: file.name)
def test_data_never_becomes_markup_or_code(file):
    text = file.read_text(encoding="utf-8")
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "srcdoc"):
        assert word not in text, word
    assert '"style"' not in text, "an attribute `style` is refused by the page's policy: set properties instead"


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: file.name)
def test_scripts_are_short(file):
    lines = file.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= LONGEST
    assert max(map(len, lines)) <= WIDEST


def test_ids_and_labels_fit_together(tags):
    ids = [attributes["id"] for _, attributes in tags.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in tags.tags:
        for key in ("for", "aria-controls", "aria-labelledby", "aria-describedby"):
            assert attributes.get(key) is None or attributes[key] in ids, attributes
    asked = {name for file in SCRIPTS for name in re.findall(r'\$\("([\w-]+)"\)', file.read_text(encoding="utf-8"))}
    assert asked <= set(ids), asked - set(ids)


def test_every_file_is_package_data():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = settings["tool"]["setuptools"]["package-data"]["treetop"]
    packed = {file for pattern in patterns for file in (ROOT / "treetop").glob(pattern)}
    assert set(FILES) <= packed
