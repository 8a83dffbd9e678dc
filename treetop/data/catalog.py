"""Facts about published data sets, from catalog.yaml: propensity constants, text fields, bundled files."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from treetop.core.config import read_yaml
from treetop.core.errors import DataError

HERE = Path(__file__).parent


@cache
def _catalog() -> dict[str, Any]:
    return read_yaml(HERE / "catalog.yaml")


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


@cache
def _sets() -> dict[str, dict[str, Any]]:
    sets: dict[str, dict[str, Any]] = {}
    for group in _catalog()["published"]:
        facts = {key: value for key, value in group.items() if key != "sets"}
        for name in group["sets"]:
            sets.setdefault(_plain(name), {}).update(facts)
    return sets


def facts(name: str) -> dict[str, Any]:
    """Facts about a data set by its (folder) name; case, blanks and dashes are ignored."""
    return _sets().get(_plain(name), {})


def propensity(name: str) -> tuple[float, float]:
    """Constants A and B of a data set, or the defaults."""
    a, b = facts(name).get("propensity", _catalog()["propensity"])
    return float(a), float(b)


def bundled() -> dict[str, dict[str, Any]]:
    """Name -> entry of the data sets that come with the package."""
    return dict(_catalog()["bundled"])


def bundled_folder(name: str) -> Path:
    """Folder of a bundled data set."""
    return HERE / "bundled" / name


def check_bundled(name: str) -> None:
    """Refuse a bundled data set whose files differ from those the package was built with."""
    for file, digest in bundled()[name]["files"].items():
        path = bundled_folder(name) / file
        if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            raise DataError("the bundled file is missing or changed. Install treetop again.", file=path)
