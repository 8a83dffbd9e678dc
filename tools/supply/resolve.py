"""The packages that pip would install for treetop with all extras, and which of them needs which."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

NAME = "treetop"
TOOLS = ("test", "docs")  # extras for developers; what only they need is not part of what users run
USERS = ("all",)
PIP = "pip>=25"  # older ones do not report licence expressions


@dataclass
class Package:
    """One package of a resolution."""

    name: str
    version: str
    licence: str
    sha256: str
    needs: set[str] = field(default_factory=set)
    scope: str = "excluded"  # CycloneDX: required (every user has it), optional (an extra), excluded (developers)


def report(root: Path) -> dict[str, Any]:
    """What pip would install into an empty environment under the constraints, in its own words."""
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "install", "-q"]
        subprocess.run([*pip, "--target", f"{folder}/pip", PIP], check=True)
        file = Path(folder, "report.json")
        wanted = f"{root.resolve()}[{','.join((*USERS, *TOOLS))}]"
        words = ["--dry-run", "--ignore-installed", "--only-binary", ":all:", "--no-build-isolation"]
        words += ["--report", str(file), "-c", str(root / "constraints.txt"), wanted]
        subprocess.run([*pip, *words], check=True, env={**os.environ, "PYTHONPATH": f"{folder}/pip"})
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return found


def packages(told: Mapping[str, Any]) -> dict[str, Package]:
    """The packages of a report by their normalised names, treetop aside."""
    metadata = {str(canonicalize_name(item["metadata"]["name"])): item for item in told["install"]}
    found: dict[str, Package] = {}
    for name, item in sorted(metadata.items()):
        facts = item["metadata"]
        sha256 = item["download_info"].get("archive_info", {}).get("hashes", {}).get("sha256", "")
        found[name] = Package(facts["name"], facts["version"], licence(facts), sha256)
    for scope, extras in (("excluded", TOOLS), ("optional", USERS), ("required", ())):
        for name in _walk(metadata, told["environment"], extras, found):
            found[name].scope = scope
    del found[NAME]
    return found


def _walk(
    metadata: Mapping[str, Any], environment: Mapping[str, str], extras: Sequence[str], found: Mapping[str, Package]
) -> set[str]:
    """Names of what treetop with these extras needs; notes at each package what it needs itself."""
    seen: set[tuple[str, str]] = set()
    left = [(NAME, extra) for extra in ("", *extras)]
    while left:
        name, extra = left.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        for line in metadata[name]["metadata"].get("requires_dist", ()):
            needed = Requirement(line)
            if needed.marker is not None and not needed.marker.evaluate({**environment, "extra": extra}):
                continue
            other = canonicalize_name(needed.name)
            if other != name:
                found[name].needs.add(other)
            left += [(other, more) for more in ("", *needed.extras)]
    return {name for name, _ in seen}


def licence(facts: Mapping[str, Any]) -> str:
    """What a package says of its licence: an SPDX expression, a short text, or its classifiers."""
    told = str(facts.get("license_expression") or facts.get("license") or "").strip()
    if told and told != "UNKNOWN" and len(told) <= 120 and "\n" not in told:
        return told
    named = [line.rpartition(" :: ")[2] for line in facts.get("classifier", ()) if line.startswith("License :: ")]
    return ", ".join(named)
