"""Limits on input: bytes per line and per cell, columns of a table, expansion of gzip data.

A broken or hostile file is refused with a sentence before it fills the memory; who has longer lines raises the limit.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, fields

from treetop.core.errors import ConfigError
from treetop.core.forecast import UNITS

PREFIX = "TREETOP_MAX_"
EXAMPLES = {"line": "256MB", "cell": "64MB", "columns": "50000", "expansion": "5000"}


@dataclass(frozen=True)
class Limits:
    """The limits; environment variables such as `TREETOP_MAX_LINE=256MB` change them."""

    line: int = 64 * 10**6  # bytes of a line; of a row that goes over several lines
    cell: int = 16 * 10**6  # bytes of a cell of a table
    columns: int = 10_000  # of a table
    expansion: int = 1_000  # bytes that come out of one byte of gzip data, where more than a line comes out

    @classmethod
    def of_environment(cls) -> Limits:
        given = {field.name: os.environ.get(PREFIX + field.name.upper(), "").strip() for field in fields(cls)}
        return cls(**{name: _number(name, value) for name, value in given.items() if value})

    def shown(self, name: str) -> str:
        """A limit as a sentence names it."""
        value = getattr(self, name)
        return f"{value / 10**6:g} MB" if name in ("line", "cell") else f"{value:,}"


def how_to_raise(name: str) -> str:
    """The end of a sentence that refuses something above a limit."""
    return f"raise the limit with {PREFIX}{name.upper()}, for example {PREFIX}{name.upper()}={EXAMPLES[name]}."


def _number(name: str, value: str) -> int:
    units = UNITS if name in ("line", "cell") else {}
    match = re.fullmatch(r"([0-9]{1,15})\s*([A-Za-z]*)", value)
    unit = match[2].upper() if match else "?"
    if match is None or (unit and unit not in units) or int(match[1]) < 1:
        raise ConfigError(
            f"{PREFIX}{name.upper()}: cannot read '{value[:40]}'. Write a whole number"
            f"{' and a unit' if units else ''}, such as {EXAMPLES[name]}."
        )
    return int(match[1]) * units.get(unit, 1)
