"""What a result must say about itself, so that a reader can repeat it: command, versions, seed, commit, machine."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from treetop.core.errors import InputError
from treetop.core.version import VERSION

FORMAT = 1


def provenance(*, seed: int, root: Path, command: list[str] | None = None) -> dict[str, Any]:
    """The part of a record that has nothing to do with the measurement itself."""
    return {
        "format": FORMAT,
        "command": " ".join(command or _command()),
        "seed": seed,
        "treetop": VERSION,
        "commit": commit(root),
        "machine": machine(),
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def _command() -> list[str]:
    """The command line without places of this machine: the program's name, and the end of every absolute path."""
    return [Path(sys.argv[0]).name or "python", *map(_portable, sys.argv[1:])]


def _portable(word: str) -> str:
    name, equals, path = word.rpartition("=")
    return name + equals + "/".join(Path(path).parts[-2:]) if path.startswith("/") else word


def commit(root: Path) -> str:
    """The commit of the working tree, with '+' when tracked files differ from it; 'unknown' outside git."""
    head = _git(root, "rev-parse", "HEAD")
    if not head:
        return "unknown"
    return head[:12] + ("+" if _git(root, "status", "--porcelain", "--untracked-files=no", "--", "treetop") else "")


def _git(root: Path, *words: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def machine() -> dict[str, Any]:
    """Processor, cores, memory and load: enough to judge a figure, nothing that names the host."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line]
        cpu = names[0] if names else cpu
    return {
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "load": [round(value, 2) for value in os.getloadavg()],
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def write(file: Path, values: Mapping[str, Any]) -> None:
    """Write a record aside and rename it, so that a killed run leaves no half record."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(file.name + ".part")
    part.write_text(json.dumps(rounded(values), indent=1, sort_keys=True, allow_nan=False) + "\n", encoding="utf-8")
    part.rename(file)


def read(file: Path) -> dict[str, Any]:
    """A record; a damaged one is refused by name."""
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: cannot be read as a record ({error}). Delete it and run the cell again.") from None
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise InputError(f"{file}: not a record of format {FORMAT}. Delete it and run the cell again.")
    return values


def rounded(value: Any, digits: int = 6) -> Any:
    """Floats cut to six significant digits, so that records stay readable."""
    if isinstance(value, Mapping):
        return {key: rounded(item, digits) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item, digits) for item in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value
