"""Compiled code on disk: only what this user wrote is run, damage is mended, and no folder is needed."""

import hashlib
import logging
import os
import pickle
import random
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from command import ENV
from treetop.kernels.runtime import cache
from treetop.kernels.runtime.compile import kernel

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system knows no owners of files")
STRANGER = 54321


class Attack:
    """Leaves a trace where it is unpickled."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return Path.touch, (self.trace,)


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A machine of its own: home and the folder for temporary files lie in `tmp_path`, and nothing is set."""
    for name in cache.PLACES:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    return tmp_path


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """A kernel, and the only file of the cache, which holds its code."""
    monkeypatch.setattr(cache, "folder", lambda: tmp_path)
    assert fresh()(1) == 8
    (file,) = tmp_path.iterdir()
    return file


def fresh():
    """The same kernel as a new process has it."""
    return kernel(add_seven)


def add_seven(x):
    return x + 7


def chosen():
    return cache.folder.__wrapped__()


def give_to_stranger(path, monkeypatch):
    """As if another user had made it, also where the tests may not give files away."""
    try:
        os.lchown(path, STRANGER, STRANGER)
    except PermissionError:
        plain, inode = os.lstat, os.lstat(path).st_ino
        monkeypatch.setattr(Path, "lstat", lambda self: disown(plain(self), inode))
        monkeypatch.setattr(Path, "stat", lambda self, **_: disown(os.lstat(self), inode))


def disown(found, inode):
    values = list(found)
    values[4] = STRANGER if found.st_ino == inode else values[4]
    return os.stat_result(values)


def test_a_cache_is_made_for_this_user_alone(places):
    found = chosen()
    assert found.parent == places / "home/.cache/treetop" and found.name.startswith("kernels-")
    assert [folder.stat().st_mode & 0o777 for folder in (found, found.parent, found.parent.parent)] == [0o700] * 3
    assert chosen() == found


@pytest.mark.parametrize("name", cache.PLACES)
def test_a_cache_is_made_where_the_environment_says(places, monkeypatch, name):
    monkeypatch.setenv(name, str(places / "mine"))
    assert chosen().parent == places / "mine/treetop"


@pytest.mark.parametrize(
    ("fault", "depth"),
    [(fault, depth) for fault in ("stranger", "writable", "link") for depth in range(fault == "link", 3)],
)
@pytest.mark.parametrize("name", [*cache.PLACES, "HOME"])
def test_a_cache_that_others_may_have_filled_is_not_used(places, monkeypatch, caplog, name, fault, depth):
    if name != "HOME":
        monkeypatch.setenv(name, str(places / "mine"))
    found = chosen()
    bad = [found.parent.parent, found.parent, found][depth]
    if fault == "stranger":
        give_to_stranger(bad, monkeypatch)
    elif fault == "writable":
        bad.chmod(0o777)
    else:
        bad.rename(places / "elsewhere")
        bad.symlink_to(places / "elsewhere")
    with caplog.at_level(logging.WARNING, "treetop"):
        other = chosen()
    assert other.parent == places / f"tmp/treetop-{os.geteuid()}" and other.stat().st_mode & 0o777 == 0o700
    assert f"{bad}: not used for compiled kernels" in caplog.text and "TREETOP_CACHE" in caplog.text


@pytest.mark.parametrize("fault", ["stranger", "writable", "link"])
@pytest.mark.parametrize("depth", [0, 1])
def test_a_folder_that_another_user_made_first_among_temporary_files_is_not_used(places, monkeypatch, fault, depth):
    (places / "home").touch()  # no cache there
    (places / "tmp").chmod(0o1777)
    found = chosen()
    bad = [found.parent, found][depth]
    if fault == "link":
        bad.rename(places / "elsewhere")
        bad.symlink_to(places / "elsewhere")
    elif fault == "stranger":
        give_to_stranger(bad, monkeypatch)
    else:
        bad.chmod(0o770)
    assert chosen() is None


def test_a_link_to_the_own_cache_folder_is_followed(places):
    (places / "scratch").mkdir()
    (places / "home").mkdir()
    (places / "home/.cache").symlink_to(places / "scratch")
    assert chosen().resolve().parent == places / "scratch/treetop"


def test_code_of_another_user_is_never_run(stored, tmp_path, monkeypatch):
    content = pickle.dumps(Attack(tmp_path / "trace"))
    stored.write_bytes(hashlib.sha256(content).digest() + content)
    plain = os.fstat
    monkeypatch.setattr(os, "fstat", lambda number: disown(plain(number), stored.stat().st_ino))
    assert fresh()(1) == 8 and not (tmp_path / "trace").exists()
    monkeypatch.undo()
    monkeypatch.setattr(cache, "folder", lambda: tmp_path)
    stored.write_bytes(hashlib.sha256(content).digest() + content)
    fresh()(1)
    assert (tmp_path / "trace").exists()  # so that the claim above could fail


def damages(good):
    some = random.Random(0)
    yield from (good[:length] for length in (0, 1, 31, 32, 33, len(good) // 2, len(good) - 1))
    yield some.randbytes(len(good))
    for _ in range(4):
        at = some.randrange(len(good))
        yield good[:at] + bytes([good[at] ^ 1 << some.randrange(8)]) + good[at + 1 :]
    for content in (b"", b"garbage", pickle.dumps(None), pickle.dumps((1, 2)), pickle.dumps(("key", "code"))):
        yield hashlib.sha256(content).digest() + content


def test_damaged_code_is_dropped_and_written_anew(stored):
    good = stored.read_bytes()
    assert fresh()(2) == 9
    for damaged in damages(good):
        stored.write_bytes(damaged)
        assert fresh()(2) == 9
        again = fresh()
        assert again(2) == 9 and again.stats.cache_hits.total() == 1 and again.stats.cache_misses.total() == 0
    assert [*stored.parent.iterdir()] == [stored]


def test_code_that_cannot_be_kept_is_compiled(tmp_path, monkeypatch):
    for place in (None, tmp_path / "absent"):
        monkeypatch.setattr(cache, "folder", lambda place=place: place)
        assert fresh()(1) == 8
    (tmp_path / "taken").touch()
    monkeypatch.setattr(cache, "folder", lambda: tmp_path / "taken")
    assert fresh()(1) == 8


def test_without_a_home_or_a_folder_for_temporary_files_there_is_no_cache(places, monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    def nowhere():
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(Path, "home", homeless)
    assert chosen().parent == places / f"tmp/treetop-{os.geteuid()}"
    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    assert chosen() is None


def test_writers_that_meet_leave_each_its_own_code(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "folder", lambda: tmp_path)
    meet, plain = threading.Barrier(2), cache._write

    def write(file, content):
        meet.wait(5)  # both have compiled, neither has written
        plain(file, content)

    writers = [threading.Thread(target=write, args=(tmp_path / kind, kind.encode())) for kind in ("one", "other")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert {file.name: cache._read(file) for file in tmp_path.iterdir()} == {"one": b"one", "other": b"other"}


ODD = """
import sys
sys.modules["fcntl"] = None  # as on Windows
import numba, treetop.kernels.runtime.compile, treetop.model, treetop.training
print(repr(numba.config.CACHE_DIR))
from numba.core.caching import IndexDataCacheFile
print(IndexDataCacheFile.save.__module__)
"""


def test_importing_leaves_numba_as_it_is_and_needs_no_fcntl(tmp_path):
    env = {name: value for name, value in ENV.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run([sys.executable, "-c", ODD], capture_output=True, text=True, env=env)
    assert done.returncode == 0 and done.stdout.split() == ["''", "numba.core.caching"], done.stderr
