"""The public names: functions and methods, commands with their options, settings of recipes and augmentations.

They are read from the generated pages, which a test keeps up to date.
"""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def current(docs: Path = DOCS) -> list[str]:
    """Every public name, each with what it belongs to."""
    found = [f"python {name}" for name in re.findall(r"^### (\S+)$", _read(docs / "api.md"), flags=re.M)]
    for section in _read(docs / "cli.md").split("\n## ")[1:]:
        command = section.partition("\n")[0]
        options = [word for cell in re.findall(r"^\| (`-.*?) \|", section, flags=re.M) for word in cell.split(", ")]
        found += [command, *(f"{command} {option.strip('`')}" for option in options)]
    for folder in ("settings", "augmentations"):
        for page in sorted((docs / folder).glob("*.md")):
            names = re.findall(r"^\| `([a-z][\w.]*)` \|", _read(page), flags=re.M)
            found += [f"setting {page.stem} {name}" for name in names]
    return sorted(set(found))


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8")
