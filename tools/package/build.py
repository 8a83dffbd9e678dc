"""Build sdist and wheel so that the same commit gives the same bytes, and compare what they hold with the repository.

Tracked files are copied into a folder with one mode and one time (`SOURCE_DATE_EPOCH`, or the last commit's). The
sdist that setuptools makes of them is packed again, since setuptools writes the time and the owner into it; the wheel
is built from the unpacked sdist, as pip does it for a stranger.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

HOOK = "import setuptools.build_meta, sys; getattr(setuptools.build_meta, sys.argv[1])(sys.argv[2])"
BESIDE = {"pyproject.toml", "README.md", "LICENSE", "MANIFEST.in", "CHANGELOG.md", "CITATION.cff", "SECURITY.md"}
BESIDE |= {"constraints.txt"}
MADE = {"PKG-INFO", "setup.cfg"}  # by setuptools, with a folder treetop.egg-info
INFO = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "top_level.txt"}
ROOT_MODE, FILE_MODE, PROGRAM_MODE = 0o755, 0o644, 0o755


@dataclass(frozen=True)
class Built:
    """The two files a release consists of."""

    sdist: Path
    wheel: Path

    @property
    def hashes(self) -> dict[str, str]:
        return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in (self.sdist, self.wheel)}


def tracked(root: Path) -> dict[str, bytes]:
    """Every file of the repository that git tracks, as it is in the working tree."""
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], capture_output=True, check=True).stdout
    names = [name for name in listed.decode().split("\0") if name]
    return {name: (root / name).read_bytes() for name in names if (root / name).is_file()}


def epoch(root: Path) -> int:
    """The time that every packed file gets: SOURCE_DATE_EPOCH, or when the last commit was made."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    log = ["git", "-C", str(root), "log", "-1", "--format=%ct"]
    return int(given or subprocess.run(log, capture_output=True, check=True, text=True).stdout)


def build(files: Mapping[str, bytes], work: Path, time: int) -> Built:
    """Both files, made in a new folder `work`."""
    source, out = work / "source", work / "dist"
    _write(files, source, time)
    _backend("build_sdist", source, out, time)
    (sdist,) = out.glob("*.tar.gz")
    repack(sdist, time)
    unpacked = work / "unpacked"
    with tarfile.open(sdist) as archive:
        archive.extractall(unpacked, filter="data")
    (folder,) = unpacked.iterdir()
    _backend("build_wheel", folder, out, time)
    (wheel,) = out.glob("*.whl")
    return Built(sdist, wheel)


def repack(sdist: Path, time: int) -> None:
    """The same files in the order of their names, without owners, at one time; nothing else of the machine is in it."""
    packed = io.BytesIO()
    with tarfile.open(sdist) as old, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new:
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            plain = tarfile.TarInfo(member.name)
            plain.type, plain.size, plain.mtime = member.type, member.size, time
            plain.mode = PROGRAM_MODE if member.isdir() or member.mode & 0o100 else FILE_MODE
            new.addfile(plain, old.extractfile(member) if member.isfile() else None)
    sdist.write_bytes(gzip.compress(packed.getvalue(), mtime=time))


def _write(files: Mapping[str, bytes], folder: Path, time: int) -> None:
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        file.chmod(FILE_MODE)
        os.utime(file, (time, time))


def _backend(hook: str, folder: Path, out: Path, time: int) -> None:
    """Run setuptools in a process of its own, whose surroundings decide nothing."""
    out.mkdir(exist_ok=True)
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR") if key in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", HOOK, hook, str(out.resolve())], cwd=folder, capture_output=True, text=True, umask=0o022,
        env={**kept, "SOURCE_DATE_EPOCH": str(time), "LC_ALL": "C.UTF-8", "TZ": "UTC"}, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{hook} failed:\n{done.stdout}{done.stderr}")


def problems(built: Built, files: Mapping[str, bytes], version: str) -> list[str]:
    """What is wrong with the two files, one sentence each; empty if nothing is."""
    package = {name: content for name, content in files.items() if name.startswith("treetop/")}
    found = []
    with tarfile.open(built.sdist) as archive:
        top = f"treetop-{version}/"
        members = {member.name: archive.extractfile(member) for member in archive.getmembers() if member.isfile()}
        inside = {name.removeprefix(top): file.read() for name, file in members.items() if file is not None}
    made = {name for name in inside if name in MADE or name.startswith("treetop.egg-info/")}
    expected = package | {name: files[name] for name in BESIDE & files.keys()}
    found += _differences(built.sdist.name, {name: inside[name] for name in inside.keys() - made}, expected)
    with zipfile.ZipFile(built.wheel) as wheel:
        inside = {name: wheel.read(name) for name in wheel.namelist()}
    info = f"treetop-{version}.dist-info/"
    licences = {
        name for name in files if PurePosixPath(name).match("LICENSE*") and (name in package or "/" not in name)
    }
    expected = package | {f"{info}licenses/{name}": files[name] for name in licences}
    made = {info + name for name in INFO}
    found += [f"{built.wheel.name}: {name} is missing" for name in sorted(made - inside.keys())]
    found += _differences(built.wheel.name, {name: inside[name] for name in inside.keys() - made}, expected)
    metadata = inside.get(f"{info}METADATA", b"").decode()
    found += [
        f"{built.wheel.name}: METADATA has no line '{line}'"
        for line in (f"Version: {version}", "License-Expression: Apache-2.0", "Requires-Python: >=3.11")
        if line not in metadata.splitlines()
    ]
    return found


def _differences(name: str, inside: Mapping[str, bytes], expected: Mapping[str, bytes]) -> list[str]:
    return [
        *(f"{name}: {file} is missing" for file in sorted(expected.keys() - inside.keys())),
        *(f"{name}: {file} does not belong there" for file in sorted(inside.keys() - expected.keys())),
        *(
            f"{name}: {file} is not as in the repository"
            for file in sorted(expected)
            if inside.get(file, expected[file]) != expected[file]
        ),
    ]


def release(root: Path, out: Path, version: str) -> Built:
    """Build twice in two folders, compare, check what is in it, and put both files into `out`."""
    files, time = tracked(root), epoch(root)
    first, second = (build(files, _fresh(out / place), time) for place in ("first", "second/elsewhere"))
    wrong = problems(first, files, version)
    wrong += [f"{name}: two builds differ" for name, sha in first.hashes.items() if second.hashes.get(name) != sha]
    if wrong:
        raise SystemExit("\n".join(wrong))
    placed = Built(*(Path(shutil.copy(file, out)) for file in (first.sdist, first.wheel)))
    for folder in ("first", "second"):
        shutil.rmtree(out / folder)
    return placed


def _fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
