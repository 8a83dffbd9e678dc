"""What mkdocs asks while it builds the site (`hooks` in mkdocs.yml); without mkdocs, what its navigation lists.

The pages are written for readers of the repository. On the site, `folder/*` in the navigation stands for the pages of a
folder, the texts of `PROJECT` become pages, and links to other files of the repository become plain text.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
PROJECT = {  # file of the repository -> page of the site
    "README.md": "project/readme.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "benchmarks/README.md": "project/benchmarks.md",
}
PAGES = {page: file for file, page in PROJECT.items()}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s#]+)(#[^()\s]*)?\)")
GROUPS = (  # of recipes, in this order; others follow
    "baselines", "linear, trees", "embeddings", "transformer, trees", "short text, label text",
    "dual encoders, full classifiers", "ours",
)  # fmt: skip
Nav = list[Any]


def on_config(config: Any) -> Any:
    """Write out the folders of the navigation."""
    config.nav = expanded(config.nav, ROOT)
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add texts that lie outside docs/."""
    from mkdocs.structure.files import File

    for file, page in PROJECT.items():
        files.append(File.generated(config, page, content=(ROOT / file).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links as the site needs them."""
    return relinked(markdown, page.file.src_uri)


def expanded(nav: Nav, root: Path) -> Nav:
    """The navigation with the pages of a folder in the place of `folder/*`; recipes by group."""
    found: Nav = []
    for entry in nav:
        if isinstance(entry, str) and entry.endswith("/*"):
            found += _folder(entry.removesuffix("/*"), root)
        elif isinstance(entry, dict):
            [(title, inner)] = entry.items()
            if isinstance(inner, str) and inner.endswith("/*"):
                inner = [inner]
            found.append({title: expanded(inner, root) if isinstance(inner, list) else inner})
        else:
            found.append(entry)
    return found


def listed(nav: Nav) -> Iterator[str]:
    """Every page of an expanded navigation."""
    for entry in nav:
        inner = next(iter(entry.values())) if isinstance(entry, dict) else entry
        if isinstance(inner, list):
            yield from listed(inner)
        else:
            yield inner


def relinked(markdown: str, page: str) -> str:
    """Links of a page (by its place on the site) to files of the repository: to their page, or only their words."""
    source = PAGES.get(page, f"docs/{page}")

    def place(match: re.Match[str]) -> str:
        picture, words, target, anchor = match[1], match[2], match[3], match[4] or ""
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if "://" in target or not (ROOT / file).exists():
            return match[0]
        goal = PROJECT.get(file) or (file.removeprefix("docs/") if file.startswith("docs/") else "")
        if not goal:
            return words
        return f"{picture}[{words}]({posixpath.relpath(goal, posixpath.dirname(page) or '.')}{anchor})"

    return LINK.sub(place, markdown)


def _folder(folder: str, root: Path) -> Nav:
    pages = [{file.stem: f"{folder}/{file.name}"} for file in sorted((root / "docs" / folder).glob("*.md"))]
    if folder != "recipes":
        return pages
    groups: dict[str, Nav] = {name: [] for name in GROUPS}
    for page in pages:
        groups.setdefault(_group(root / "treetop" / "recipes" / f"{next(iter(page))}.py"), []).append(page)
    return [{name: found} for name, found in groups.items() if found]


def _group(recipe: Path) -> str:
    """The constant GROUP of a recipe, read without importing it."""
    for node in ast.parse(recipe.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "GROUP":
            return str(ast.literal_eval(node.value))
    return "others"
