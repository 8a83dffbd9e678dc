"""Provenance of a measurement, so that it can be repeated: command, versions, seed, commit, machine."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from io import RawIOBase
from pathlib import Path
from typing import Any

from treetop.core.executor.threads import cores
from treetop.core.forecast import physical_memory
from treetop.core.version import VERSION

SOURCE = Path(__file__).parents[2]  # the repository, where treetop runs from one
PACKAGES = ("numpy", "scipy", "numba", "torch", "transformers")
FORMAT = 1


def provenance(*, seed: int, root: Path = SOURCE, command: list[str] | None = None) -> dict[str, Any]:
    """The part of a record that identifies how it was measured."""
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
    """The command line without local paths: the program's name, and the last part of every absolute path."""
    return [*_program(), *map(_portable, sys.argv[1:])]


def _program() -> list[str]:
    name = Path(sys.argv[0]).name
    if name != "__main__.py":
        return [name or "python"]
    module = sys.modules["__main__"].__spec__
    return ["python", "-m", module.name.removesuffix(".__main__")] if module else ["python"]


def _portable(word: str) -> str:
    name, equals, path = word.rpartition("=")
    return name + equals + "/".join(Path(path).parts[-2:]) if path.startswith("/") else word


def commit(root: Path) -> str:
    """The commit of the working tree, with '+' when tracked files differ; 'unknown' where git has no treetop."""
    head = _git(root, "rev-parse", "HEAD") if _git(root, "ls-files", "--", "treetop") else ""
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
    """Processor, cores, memory and load: enough to judge a measurement, without naming the host."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line]
        cpu = names[0] if names else cpu
    return {
        "cpu": cpu,
        "cores": cores(),
        "memory_gb": round(physical_memory() / 1e9, 1),
        "load": [round(value, 2) for value in os.getloadavg()] if hasattr(os, "getloadavg") else [],
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def versions() -> dict[str, str]:
    """Versions of the packages that numbers come from, where they are installed."""
    installed = {"treetop": VERSION}
    for name in PACKAGES:
        try:
            installed[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return installed


def append(file: Path, values: Mapping[str, Any]) -> None:
    """Add a record to a file of JSON lines in one write, so that several processes may append concurrently."""
    line = json.dumps(rounded(values), sort_keys=True, allow_nan=False) + "\n"
    file.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666), "rb", buffering=0) as stream:
        _lock(stream.fileno())
        if stream.seek(0, os.SEEK_END) and not _ends_whole(stream):  # a disk was full: keep the damage to one line
            line = "\n" + line
        os.write(stream.fileno(), line.encode())


def _lock(handle: int) -> None:
    """Until it is closed; without system locks, only the single write protects it."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX)
    except (ImportError, OSError):
        return


def _ends_whole(stream: RawIOBase) -> bool:
    stream.seek(-1, os.SEEK_END)
    return stream.read(1) == b"\n"


def rounded(value: Any, digits: int = 6) -> Any:
    """Floats cut to six significant digits, so that records stay readable."""
    if isinstance(value, Mapping):
        return {key: rounded(item, digits) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item, digits) for item in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value
