"""Every file-system call of save, training into a folder and label changes fails once, in several ways.

Files are opened by Python's own `_pyio`, whose every write is an `os.write`, so that the calls of `os` (and `flock` and
the exchange of two folders) are all there is to count. A case is (operation, kind of fault, n): the n-th call fails.
Whatever fails, the operation ends in a TreetopError or well, what was there before still answers the same, nothing
temporary is left, and the operation given again succeeds.
"""

from __future__ import annotations

import _pyio
import builtins
import contextlib
import errno
import functools
import io
import json
import os
import shutil
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import toy
import treetop
from treetop.core import target
from treetop.core.dataset import Dataset
from treetop.core.errors import TreetopError

from .harness import Case, Part, main

CALLS = ("open", "write", "close", "fsync", "mkdir", "rename", "replace", "chmod", "unlink", "rmdir", "scandir")
CLEANING = {"unlink", "rmdir", "scandir", "open folder"}  # calls without which nothing can be removed
READING = CLEANING | {"open"}  # calls that write nothing
KINDS = ("EIO", "EACCES", "EMFILE", "full", "short")
FULL = ("create", "write", "mkdir", "fsync")  # what needs space: it fails again and again
UNCHANGED = ("nothing was replaced", "the model is as it was")  # what errors promise
UNCONFIRMED = "Check the disk before you rely on it."
TINY = {"tfidf": {"min_df": 1}}


@dataclass
class Disk:
    """Counts the calls that concern files below `root`, and lets the one with number `at` fail."""

    root: str
    kind: str = ""
    at: int = 0
    calls: list[str] = field(default_factory=list)
    files: dict[int, bool] = field(default_factory=dict)  # open ones, and whether they are written to

    @property
    def failed(self) -> str:
        """The call that failed first, or nothing."""
        return self.calls[self.at - 1] if 0 < self.at <= len(self.calls) else ""

    def fails(self, call: str) -> int:
        """The error number this call ends with, 0 where it goes on."""
        self.calls.append(call)
        now, later = len(self.calls) == self.at, 0 < self.at < len(self.calls)
        if self.kind in {"full", "short"}:
            return errno.ENOSPC if call in FULL and (later or (now and self.kind == "full")) else 0
        return getattr(errno, self.kind) if now else 0

    def concerns(self, place: Any, options: dict[str, Any]) -> bool:
        """Whether a path or an open file lies below the root."""
        if isinstance(place, int):
            return place in self.files
        return os.fsdecode(place).startswith(self.root) or options.get("dir_fd") is not None

    def wrapped(self, call: str, real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def shim(place: Any, *rest: Any, **options: Any) -> Any:
            if not self.concerns(place, options):
                return real(place, *rest, **options)
            if call == "close":
                return self.close(place, real)
            flags = rest[0] if call == "open" else 0
            writes = bool(flags & (os.O_WRONLY | os.O_RDWR))
            reads_folder = call == "open" and not writes and not _is_file(place, options)
            creates = bool(flags & os.O_CREAT)
            name = "open folder" if reads_folder else "create" if creates else call
            if error := self.fails(name):
                raise OSError(error, os.strerror(error), None if isinstance(place, int) else place)
            if call == "write" and self.kind == "short" and len(self.calls) == self.at:
                return real(place, bytes(rest[0])[: len(rest[0]) // 2])
            made = real(place, *rest, **options)
            if call == "open":
                self.files[made] = writes
            return made

        return shim

    def close(self, place: int, real: Callable[..., Any]) -> None:
        """A file is closed also when that fails, as it may where what was written goes over a network."""
        written = self.files.pop(place)
        real(place)
        if written and (error := self.fails("close")):
            raise OSError(error, os.strerror(error))

    @contextlib.contextmanager
    def used(self, *, exchange: bool) -> Iterator[None]:
        """All file-system calls go through this disk; `exchange`: two folders can change places in one step."""
        real = target._exchange

        def exchanged(one: Path, other: Path) -> bool:
            return exchange and not self.fails("exchange") and real(one, other)

        with contextlib.ExitStack() as patches:
            for call in CALLS:
                patches.enter_context(mock.patch.object(os, call, self.wrapped(call, getattr(os, call))))
            for module in (io, builtins):
                patches.enter_context(mock.patch.object(module, "open", _pyio.open))
            patches.enter_context(mock.patch.object(target, "_exchange", exchanged))
            yield


def _is_file(place: Any, options: dict[str, Any]) -> bool:
    try:
        mode = os.stat(place, dir_fd=options.get("dir_fd"), follow_symlinks=False).st_mode
    except OSError:
        return True
    return not os.path.stat.S_ISDIR(mode)  # type: ignore[attr-defined]


# --- operations -----------------------------------------------------------------------------------------------------


def train(home: Path, folder: Path) -> None:
    """Stages, then the model; a second try goes on behind the last stage."""
    resume = (folder / "m.work").exists()
    treetop.fit("dismec", data(), settings=TINY, out=folder / "m", resume=resume, threads=1)


def save_fresh(home: Path, folder: Path) -> None:
    loaded(home / "edited").save(folder / "m")


def save_over(home: Path, folder: Path) -> None:
    loaded(home / "edited").save(folder / "m", overwrite=True)


def change_labels(home: Path, folder: Path) -> None:
    treetop.load(folder / "m").retire_labels(["L03"]).save(folder / "m")


@functools.cache
def loaded(folder: Path) -> Any:
    return treetop.load(folder)


@dataclass(frozen=True)
class Operation:
    """What is done in a folder that holds `before` as `m` (or nothing); then `m` answers as `after` does."""

    act: Callable[[Path, Path], None]
    before: str
    after: str
    exchange: bool = True


OPERATIONS = {
    "train": Operation(train, "", "trained"),
    "save": Operation(save_fresh, "", "edited"),
    "overwrite": Operation(save_over, "plain", "edited"),
    "overwrite in two steps": Operation(save_over, "plain", "edited", exchange=False),
    "first label change": Operation(change_labels, "plain", "changed"),
    "next label change": Operation(change_labels, "edited", "edited and changed"),
}

ALIKE = ("overwrite", "overwrite in two steps")


def prepare(home: Path, options: Namespace) -> None:
    """The models before and after, what each answers, and how many calls each operation makes."""
    plain = treetop.fit("popular", data())
    plain.save(home / "plain")
    for source, made, label in (
        ("plain", "edited", "L01"),
        ("plain", "changed", "L03"),
        ("edited", "edited and changed", "L03"),
    ):
        shutil.copytree(home / source, home / made)
        treetop.load(home / made).retire_labels([label]).save(home / made)
    treetop.fit("dismec", data(), settings=TINY, out=home / "trained", threads=1)
    names = ("plain", "edited", "changed", "edited and changed", "trained")
    (home / "answers.json").write_text(json.dumps({name: answers(home / name) for name in names}))
    (home / "calls.json").write_text(json.dumps({name: attempt(home, name, "", 0) for name in OPERATIONS}))


@functools.cache
def data() -> Dataset:
    return toy.dataset()


def answers(folder: Path) -> str:
    """What a model answers, as text."""
    rows = treetop.load(folder, check="full").predict([*data().texts[:3]], 9)
    return str([[(label.id, label.name, label.score) for label in row] for row in rows])


@functools.cache
def known(home: Path) -> dict[str, str]:
    """What each model answers."""
    return dict(json.loads((home / "answers.json").read_text()))


def attempt(home: Path, name: str, kind: str, at: int) -> list[str]:
    """Do an operation whose call number `at` fails, check what is there then, and do it again; returns its calls."""
    operation = OPERATIONS[name]
    with tempfile.TemporaryDirectory(dir=home) as place, mock.patch.object(os, "fsync", lambda file: None):
        folder = Path(place)
        if operation.before:
            shutil.copytree(home / operation.before, folder / "m")
        disk, error = Disk(place, kind, at), None
        with disk.used(exchange=operation.exchange):
            try:
                operation.act(home, folder)
            except TreetopError as caught:
                error = caught
        what = f"{name}, call {at} ({disk.failed}) fails with {kind}: {error or 'no error'}"
        left = temporary(folder)
        assert disk.failed in CLEANING or not left, f"{what}\nthen there is {left}"
        if not check_state(home, folder, operation, error, what):
            operation.act(home, folder)
            assert not temporary(folder), f"{what}\nand given again it leaves {temporary(folder)}"
            assert answers(folder / "m") == known(home)[operation.after], f"{what}\nand given again it ends otherwise"
        return disk.calls


def check_state(home: Path, folder: Path, operation: Operation, error: TreetopError | None, what: str) -> bool:
    """The model answers as before, or as after; by what the error says. Returns whether it is done."""
    before, after = known(home).get(operation.before, ""), known(home)[operation.after]
    allowed, sentence = {before, after}, str(error)
    if error is None or (sentence.endswith(UNCONFIRMED) and operation.act is not train):
        allowed = {after}
    elif any(words in sentence for words in UNCHANGED):
        allowed = {before}
    try:
        found = answers(folder / "m") if (folder / "m").exists() else ""
    except TreetopError as damaged:
        raise AssertionError(f"{what}\nthen the model does not load: {damaged}") from damaged
    assert found in allowed, f"{what}\nthen the model answers {found[:60]!r}..."
    return found == after


def temporary(folder: Path) -> list[str]:
    """Files and folders that only a write under way should have."""
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob(".*") if path.name.endswith((".tmp", ".old"))
    )


@functools.cache
def calls(home: Path) -> dict[str, list[tuple[int, str]]]:
    """Number and name of each call of an operation; of two alike only what the second does otherwise."""
    named = {name: list(enumerate(made, 1)) for name, made in json.loads((home / "calls.json").read_text()).items()}
    alike = sum(one == other for one, other in zip(*(named[name] for name in ALIKE), strict=False))
    return {**named, ALIKE[1]: named[ALIKE[1]][alike:]}


@functools.cache
def cases(home: Path) -> list[tuple[str, str, int]]:
    """Every (operation, kind, number of the call), mixed, so that a part of them is a part of each."""
    every = [(name, kind, at) for name, made in calls(home).items() for at, _ in made for kind in KINDS]
    return [every[i] for i in np.random.default_rng(0).permutation(len(every))]


def case(case: Case) -> str:
    """One operation with one fault."""
    name, kind, at = cases(case.home)[case.number]
    attempt(case.home, name, kind, at)
    return f"{name}: sound"


PART = Part("io_faults", case, prepare, total=lambda home, options: len(cases(home)))

if __name__ == "__main__":
    main(PART, module="tests.fuzz.io_faults")
