"""Files of the documentation that are made from code or records: which are out of date, and writing those."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def stale(folder: Path, pages: Mapping[str, str]) -> list[Path]:
    """Files that are missing or differ from what is `made` for them (by name below the folder)."""
    files = ((folder / name, text) for name, text in pages.items())
    return [file for file, text in files if not file.exists() or file.read_text(encoding="utf-8") != text]


def write(folder: Path, pages: Mapping[str, str]) -> list[Path]:
    """Write the files that are out of date; returns them."""
    changed = stale(folder, pages)
    for file in changed:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(pages[file.relative_to(folder).as_posix()], encoding="utf-8")
    return changed
