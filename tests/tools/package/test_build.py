"""The same commit gives the same sdist and wheel, and they hold the package, all of it and nothing else."""

import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from tools.package.build import build, problems, tracked
from treetop.core.version import VERSION

ROOT = Path(__file__).parents[3]
TIME = 1_795_000_000


@pytest.fixture(scope="module")
def files():
    return tracked(ROOT)


@pytest.fixture(scope="module")
def built(files, tmp_path_factory):
    return build(files, tmp_path_factory.mktemp("first"), TIME)


def test_two_builds_are_the_same_bytes(files, built, tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    monkeypatch.setenv("LC_ALL", "C")
    before = os.umask(0o077)
    try:
        again = build(dict(reversed(files.items())), tmp_path / "another" / "folder", TIME)
    finally:
        os.umask(before)
    assert again.hashes == built.hashes


def test_they_hold_the_package_and_nothing_else(files, built):
    assert problems(built, files, VERSION) == []
    names = set(zipfile.ZipFile(built.wheel).namelist())
    info = f"treetop-{VERSION}.dist-info/"
    wanted = ("treetop/py.typed", "treetop/serve/page/index.html", "treetop/presets/xr_linear/paper-eurlex-4k.yaml")
    wanted += (f"{info}licenses/LICENSE", f"{info}licenses/treetop/data/bundled/wordnet/LICENSE")
    assert names.issuperset(wanted)
    assert not [name for name in names if name.startswith(("tests", "tools", "benchmarks", "docs", "examples"))]
    with tarfile.open(built.sdist) as archive:
        members = archive.getmembers()
    assert {(member.mtime, member.uid, member.uname) for member in members} == {(TIME, 0, "")}
    assert {member.name.split("/")[1] for member in members if "/" in member.name} == {
        "CHANGELOG.md", "CITATION.cff", "LICENSE", "MANIFEST.in", "PKG-INFO", "README.md", "SECURITY.md",
        "constraints.txt", "pyproject.toml", "setup.cfg", "treetop", "treetop.egg-info",
    }  # fmt: skip


def test_what_is_wrong_is_said(files, built):
    changed = {**files, "treetop/new.py": b"", "treetop/py.typed": b"#", "LICENSE": b"none"}
    del changed["treetop/__main__.py"]
    found = problems(built, changed, VERSION)
    for file in (built.sdist, built.wheel):
        assert f"{file.name}: treetop/new.py is missing" in found
        assert f"{file.name}: treetop/__main__.py does not belong there" in found
        assert f"{file.name}: treetop/py.typed is not as in the repository" in found
    assert f"{built.wheel.name}: treetop-{VERSION}.dist-info/licenses/LICENSE is not as in the repository" in found
    assert any("does not belong there" in line for line in problems(built, files, "9.9.9"))
