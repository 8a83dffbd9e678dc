"""Records of measurements: one file of JSON lines for each data set and kind.

A record has a name and, where it was repeated, a repetition `rep`. Writing always adds a line; of several
lines with one name and repetition the last counts, so that a cell that is run again replaces its record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from treetop.core.errors import InputError
from treetop.core.log import logger
from treetop.core.provenance import FORMAT, append, provenance, rounded

__all__ = ["Key", "Record", "append", "key", "provenance", "read", "usable", "write"]

Record = dict[str, Any]
Key = tuple[str, int]  # name, repetition


def key(values: Mapping[str, Any]) -> Key:
    """What a record is found by."""
    return str(values["name"]), int(values.get("rep", 1))


def read(file: Path) -> dict[Key, Record]:
    """The records of a file in the order of their first lines; a damaged line is refused by number."""
    return {key(values): values for _, values in _lines(file, skip=False)}


def usable(file: Path) -> dict[Key, Record]:
    """The records of a file without damaged lines, which are named in a warning; nothing where there is no file."""
    return {key(values): values for _, values in _lines(file, skip=True)} if file.exists() else {}


def _lines(file: Path, *, skip: bool) -> list[tuple[int, Record]]:
    found = []
    for number, line in enumerate(file.read_text(encoding="utf-8").removesuffix("\n").split("\n"), 1):
        if not line:
            continue
        try:
            found.append((number, _record(line)))
        except ValueError as error:
            message = f"{file}:{number}: not a record ({error}). Delete this line and run its cell again."
            if not skip:
                raise InputError(message) from None
            logger.warning("%s", message)
    return found


def _record(line: str) -> Record:
    values = json.loads(line)
    if not isinstance(values, dict) or values.get("format") != FORMAT or "name" not in values:
        raise ValueError(f"no name, or not of format {FORMAT}")
    return values


def write(file: Path, values: Mapping[str, Any]) -> None:
    """Write a file of one topic aside and rename it, so that a killed run leaves no half of it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(file.name + ".part")
    part.write_text(json.dumps(rounded(values), indent=1, sort_keys=True, allow_nan=False) + "\n", encoding="utf-8")
    part.rename(file)
