"""Files that follow from the document: what pip may install by hash, and a page of licences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

SCOPES = {
    "required": "Every installation",
    "optional": "Extras",
    "excluded": "For developers only (tests, documentation)",
}
HEAD = """# Made by `python -m tools.supply`: one wheel each, for Linux x86_64 and Python 3.11, with torch for the CPU.
#     pip install --require-hashes --only-binary :all: -r constraints-hashes.txt && pip install --no-deps .
"""
PAGE = """<!-- made by `python -m tools.supply`; edit tools/supply/lists.py instead -->

# Licences of what treetop needs

treetop is licensed under Apache-2.0. Its wheel holds data under other licences, whose texts are in it: WordNet 3.0
(WordNet's licence, which asks that its notice be kept) and premises from Metamath's set.mm (CC0-1.0). It holds no code
of other projects.

Nothing below is part of the wheel: pip installs it beside. The column says what each package says of itself in its
metadata; nothing was guessed, and wheels may hold libraries with licences of their own. The same list for machines,
with hashes and who needs what, is `sbom.cdx.json` (CycloneDX 1.6). [How it is made](release.md#supply-chain).
"""


def locked(document: Mapping[str, Any]) -> str:
    """Every package with the hash of its wheel. A local version ("2.13.0+cpu") is named by the public one."""
    lines = (f"{item['name']}=={_public(item)} --hash=sha256:{_hash(item)}\n" for item in _sorted(document))
    return HEAD + "".join(lines)


def page(document: Mapping[str, Any]) -> str:
    """Tables of packages and licences by who needs them."""
    parts = [PAGE]
    for scope, title in SCOPES.items():
        rows = [f"| {item['name']} | {item['version']} | {said(item)} |" for item in _sorted(document, scope)]
        parts.append("\n".join([f"## {title}\n", "| package | version | licence |", "|---|---|---|", *rows]) + "\n")
    return "\n".join(parts)


def said(item: Mapping[str, Any]) -> str:
    """What a package says of its licence."""
    (told,) = item["licenses"]
    return str(told.get("expression") or told["license"].get("id") or told["license"]["name"])


def _sorted(document: Mapping[str, Any], *scopes: str) -> Iterable[Mapping[str, Any]]:
    chosen = (item for item in document["components"] if item["scope"] in (scopes or SCOPES))
    return sorted(chosen, key=lambda item: item["name"].lower())


def _public(item: Mapping[str, Any]) -> str:
    return str(item["version"]).partition("+")[0]


def _hash(item: Mapping[str, Any]) -> str:
    return str(item["hashes"][0]["content"])
