"""Places to install the wheel in: an empty environment of a Python that is here, and roots of Debian releases.

A root is made of Debian's packages alone (`mmdebstrap`). pip installs the wheel and what it needs as for a stranger,
without this project's constraints. The trial then runs without a network, but for the loopback.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TRIAL = Path(__file__).with_name("trial.py")
CERTIFICATES = [Path(file) for file in (os.environ.get("PIP_CERT"),) if file]  # of a proxy between pip and its index
OLD_MIRROR = ["--aptopt=Acquire::Check-Valid-Until false"]  # signed all the same; a mirror may be weeks behind
ALONE = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]


@dataclass(frozen=True)
class Here:
    """An empty environment of a Python of this machine."""

    python: str

    @property
    def name(self) -> str:
        return "an empty environment"

    def prepare(self, work: Path, wheel: Path, extras: str) -> list[str]:
        """The command that starts the environment's Python in an empty folder."""
        (work / "empty").mkdir()
        subprocess.run([self.python, "-m", "venv", str(work / "venv")], check=True)
        python = str(work / "venv" / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "-q", f"{wheel}{extras}"], check=True)
        shutil.copy(TRIAL, work / "trial.py")
        return ["env", "-C", str(work / "empty"), python, "-I", str(work / "trial.py")]

    def without_numba(self, work: Path) -> None:
        pip = [str(work / "venv" / "bin" / "python"), "-m", "pip"]
        subprocess.run([*pip, "uninstall", "-q", "-y", "numba", "llvmlite"], check=True)


@dataclass(frozen=True)
class Debian:
    """The root of a Debian release with one of its Pythons."""

    suite: str
    version: str  # of Python, "3.13"

    @property
    def name(self) -> str:
        return f"Debian {self.suite}"

    def prepare(self, work: Path, wheel: Path, extras: str) -> list[str]:
        """The command that starts Python in the root."""
        root, python = work / "root", f"python{self.version}"
        subprocess.run(
            ["mmdebstrap", "--quiet", "--variant=essential", *OLD_MIRROR,
             f"--include={python},{python}-venv,libstdc++6,libgomp1", self.suite, str(root)], check=True,
        )  # fmt: skip
        for file in (TRIAL, wheel, *CERTIFICATES):
            shutil.copy(file, root)
        shutil.copy("/etc/resolv.conf", root / "etc")
        (root / "empty").mkdir()
        self._inside(root, python, "-m", "venv", "/venv")
        self._inside(root, "/venv/bin/pip", "install", "-q", f"/{wheel.name}{extras}")
        return self._words(root, "env", "-C", "/empty", "/venv/bin/python", "-I", "/trial.py")

    def without_numba(self, work: Path) -> None:
        self._inside(work / "root", "/venv/bin/pip", "uninstall", "-q", "-y", "numba", "llvmlite")

    def _inside(self, root: Path, *words: str) -> None:
        subprocess.run(self._words(root, *words), check=True)

    @staticmethod
    def _words(root: Path, *words: str) -> list[str]:
        """A command in the root, with a /proc and a /dev of its own and nothing of this process's environment."""
        mounts = 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"'
        clean = ["env", "-i", "PATH=/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL=C.UTF-8", "HOME=/root"]
        clean += [f"PIP_CERT=/{file.name}" for file in CERTIFICATES]
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", mounts, str(root), *clean, *words]


Room = Here | Debian


def try_in(room: Room, wheel: Path, extras: str, work: Path) -> dict[str, Any]:
    """Install and try the wheel with and then without numba; what both trials told."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    start = room.prepare(work, wheel.resolve(), f"[{extras}]" if extras else "")
    told = _tried(start, room.name)
    room.without_numba(work)
    told["seconds"] |= _tried(start, room.name)["seconds"]
    shutil.rmtree(work)
    return {"where": room.name, "extras": extras, **told}


def _tried(start: list[str], name: str) -> dict[str, Any]:
    done = subprocess.run([*ALONE, *start], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name}: {done.stdout}{done.stderr}")
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told
