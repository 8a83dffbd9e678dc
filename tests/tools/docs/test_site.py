"""The site: every page is in the navigation, links lead to pages and headings. None of this needs mkdocs."""

import re
import unicodedata
from collections import Counter
from pathlib import Path

import pytest
import yaml

from tools.docs.site import PROJECT, ROOT, expanded, listed, relinked

DOCS = ROOT / "docs"
SOURCES = [*sorted(DOCS.rglob("*.md")), *(ROOT / file for file in PROJECT)]
HEADING = re.compile(r"^#+ +(.*?)(?: +#+)?$", flags=re.M)
LINK = re.compile(r"\]\(([^)#\s]*)#([^)\s]+)\)")


def navigation() -> list[str]:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    return list(listed(expanded(yaml.safe_load(text)["nav"], ROOT)))


def prose(file: Path) -> str:
    """Without blocks of code."""
    return re.sub(r"^```.*?^```", "", file.read_text(encoding="utf-8"), flags=re.M | re.S)


def anchors(file: Path) -> tuple[set[str], set[str]]:
    """Of every heading as the site has them, and as repositories show them."""
    site, repository = set(), set()
    for heading in HEADING.findall(prose(file)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        plain = unicodedata.normalize("NFKD", words).encode("ascii", "ignore").decode()
        site.add(re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower()))
        repository.add(re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-"))
    return site, repository


def test_every_page_is_in_the_navigation_once():
    pages = [file.relative_to(DOCS).as_posix() for file in DOCS.rglob("*.md")]
    counted = Counter(navigation())
    assert sorted(counted) == sorted([*pages, *PROJECT.values()])
    assert [page for page, times in counted.items() if times > 1] == []


def test_recipes_are_grouped_in_the_navigation():
    [recipes] = [entry for entry in expanded([{"Recipes": "recipes/*"}], ROOT)]
    groups = {name: inner for group in recipes["Recipes"] for name, inner in group.items()}
    assert next(iter(groups)) == "baselines" and {"xr_linear": "recipes/xr_linear.md"} in groups["linear, trees"]


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_links_lead_to_headings(file):
    for target, anchor in LINK.findall(prose(file)):
        if "://" not in target:
            goal = (file.parent / target).resolve() if target else file
            for known in anchors(goal):
                assert anchor in known, f"{file.name}: {target}#{anchor}"


def test_links_are_those_of_the_site():
    assert relinked("[a](../SECURITY.md)", "hub.md") == "[a](project/security.md)"
    assert relinked("[a](docs/labels.md#examples)", "project/changelog.md") == "[a](../labels.md#examples)"
    assert relinked("[a](../recipes/xr_linear.md)", "measured/x.md") == "[a](../recipes/xr_linear.md)"
    assert relinked("![a](images/page-tag.png)", "page.md") == "![a](images/page-tag.png)"


def test_files_without_a_page_are_only_named():
    assert relinked("see [test_battery](tests/test_battery.py).", "project/readme.md") == "see test_battery."
    kept = "[a](https://example.org/x) [b](#here) [c](gone.md)"
    assert relinked(kept, "start.md") == kept
