"""Write `sbom.cdx.json` from pip's resolution, and the files that follow from it; with --check only compare those."""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.supply.bom import document
from tools.supply.lists import locked, page
from tools.supply.resolve import NAME, packages, report
from treetop.core.version import VERSION

BOM = "sbom.cdx.json"


def stale(root: Path) -> list[str]:
    """What does not follow from the document, or does not fit the constraints and the version, one sentence each."""
    text = (root / BOM).read_text(encoding="utf-8")
    content = json.loads(text)
    found = [f"{file} is not what {BOM} gives" for file, now in _files(text) if _read(root / file) != now]
    versions = {canonicalize_name(item["name"]): item["version"].partition("+")[0] for item in content["components"]}
    for line in (root / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if not (pin := line.partition("#")[0].strip()):
            continue
        wanted = Requirement(pin)
        version = versions.get(canonicalize_name(wanted.name))
        if version is not None and version not in wanted.specifier:
            found.append(f"{BOM} has {wanted.name} {version}, constraints.txt {wanted.specifier}")
    found += [f"{BOM} lacks {name}, which pyproject.toml names" for name in sorted(_named(root) - versions.keys())]
    if content["metadata"]["component"]["version"] != VERSION:
        found.append(f"{BOM} is of another version than {VERSION}")
    return found


def _files(text: str) -> list[tuple[str, str]]:
    content = json.loads(text)
    return [(BOM, text), ("constraints-hashes.txt", locked(content)), ("docs/licences.md", page(content))]


def _named(root: Path) -> set[str]:
    """What treetop needs by pyproject.toml, extras included."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *chain.from_iterable(project["optional-dependencies"].values())]
    return {str(canonicalize_name(Requirement(line).name)) for line in lines} - {NAME}


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.exists() else ""


def write(root: Path) -> None:
    """Ask pip, and write all three files."""
    told = report(root)
    found = packages(told)
    (ours,) = (item["metadata"] for item in told["install"] if item["metadata"]["name"] == NAME)
    named = {str(canonicalize_name(Requirement(line).name)) for line in ours["requires_dist"]}
    for file, text in _files(document(found, VERSION, named & found.keys())):
        (root / file).write_text(text, encoding="utf-8")


def main(words: Sequence[str] | None = None) -> int:
    """The command; 1 when something is out of date under --check."""
    parser = argparse.ArgumentParser(prog="python -m tools.supply", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing and ask nobody")
    parser.add_argument("--root", type=Path, default=Path(), help="the repository")
    options = parser.parse_args(words)
    if not options.check:
        write(options.root)
    wrong = stale(options.root)
    sys.stdout.write("".join(f"{line}: run `make supply`\n" for line in wrong))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
