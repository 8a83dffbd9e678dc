"""The cells of a table: a recipe with its preset each, trained and tested in a process of its own.

A cell that ends with an error, or is killed, leaves a record too, with the reason as `problem`; the others go on. The
file of records makes a table resumable: a cell that has a record there is not measured again, unless it failed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treetop.bench.measure import cell
from treetop.core import registry
from treetop.core.errors import InputError

ALL = "all"  # stands for every recipe
Record = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """What all cells of a table have in common."""

    settings: Sequence[str] = ()
    seed: int = 0
    threads: int | None = None
    device: str = "auto"
    budget: str = ""

    def cell(self, name: str, preset: str) -> Record:
        """What one of them asks for."""
        return cell(name, preset, self.settings, self.seed, self.device, self.budget)

    def words(self) -> list[str]:
        """The same as options of the command."""
        words = ["--seed", str(self.seed), "--device", self.device]
        words += [word for setting in self.settings for word in ("--set", setting)]
        words += ["--threads", str(self.threads)] if self.threads else []
        return words + (["--budget", self.budget] if self.budget else [])


def named(names: Iterable[str], preset: str) -> list[tuple[str, str]]:
    """(recipe, preset) of each name; a name may carry its preset, and `all` stands for every recipe."""
    found: list[tuple[str, str]] = []
    for name in names:
        for each in registry.names("recipe") if name == ALL else [name]:
            recipe, _, its = each.partition(":")
            found.append((recipe, its or preset))
    return list(dict.fromkeys(found))


def on_record(file: Path | None) -> list[Record]:
    """The records of a file; none if there is no file yet."""
    if file is None or not file.exists():
        return []
    found = []
    for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        try:
            values = json.loads(line) if line.strip() else {}
        except ValueError:
            raise InputError(
                f"{file}:{number}: is not a JSON line. Give a file that `treetop bench --record` wrote, or a new name."
            ) from None
        if isinstance(values, dict):
            found.append(values)
    return found


def matching(records: Iterable[Record], asked: Record, fingerprint: str) -> Record | None:
    """The newest record of a cell on these data that did not fail."""
    found = [
        values
        for values in records
        if values.get("cell") == asked
        and values.get("data", {}).get("fingerprint") == fingerprint
        and "problem" not in values
    ]
    return found[-1] if found else None


def run(
    cells: Sequence[tuple[str, str]], asked: Asked, data: str, quiet: Sequence[str], reading: Sequence[str]
) -> Iterator[tuple[Record, int]]:
    """(record, exit code) of each cell, as it ends; `reading`: options about how the data are read."""
    for name, preset in cells:
        command = [sys.executable, "-m", "treetop", *quiet, "bench", "--json", "--preset", preset, *asked.words()]
        command += [*reading, "--", data, name]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, encoding="utf-8", check=False)
        yield _record(done.stdout, asked.cell(name, preset), done.returncode), abs(done.returncode)


def failed(asked: Record, problem: str) -> Record:
    """The record of a cell that cannot be had."""
    return {
        "name": asked["recipe"],
        "recipe": asked["recipe"],
        "preset": asked["preset"],
        "cell": asked,
        "problem": problem,
    }


def _record(printed: str, asked: Record, code: int) -> Record:
    lines = printed.strip().splitlines()
    if lines:
        values: Record = json.loads(lines[-1])
        return values
    return failed(
        asked, f"its process was ended by signal {-code}" if code < 0 else f"its process ended with code {code}"
    )
