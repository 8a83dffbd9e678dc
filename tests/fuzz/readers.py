"""Fuzz every reader: a mutated folder must give a Dataset or a TreetopError, never anything else.

    python -m tests.fuzz.readers --seconds 30 --seed 0 --formats all
    python -m tests.fuzz.readers --count 2000 --formats huggingface,parquet
    python -m tests.fuzz.readers --formats pecos --only 1234     # one mutation again, with its traceback

Folders are read in child processes, so a crash of a C library, a hang or a flood of memory is a finding as well.
A case is named by its format and seed. Exit status 1: something was found.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random
from typing import Any

from .corpus import CORPUS, corpus, packed
from .mutations import mutate

SECONDS = 20  # one case may take
MEMORY = 6 * 10**9  # address space of a child
DATASET, REFUSED, FOUND = "dataset", "refused", "found"


@dataclass
class Tally:
    """Outcomes of one format, and what was found: seed -> last lines of a traceback."""

    outcomes: Counter[str] = field(default_factory=Counter)
    found: dict[int, str] = field(default_factory=dict)


def read_case(name: str, seed: int, folder: Path) -> str:
    """Write the mutated files of a case, read them, say what came out; anything but a TreetopError is raised."""
    from treetop.core.errors import TreetopError

    files = mutate(corpus(name), Random(f"{name} {seed}")) if seed >= 0 else corpus(name)
    if name == "xlsx_parts":
        files = packed(files, "train.xlsx")
    for path, content in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    try:
        _read_inputs(name, folder) if name.startswith("input") else _read_data(folder)
    except TreetopError as error:
        str(error).encode()  # a message must be printable
        return REFUSED
    return DATASET


def _read_data(folder: Path) -> None:
    from treetop.data.read import read_all
    from treetop.data.validate import validate

    report = validate(folder)
    splits = read_all(folder)
    if report.count:
        raise AssertionError(f"read, though validate says: {report.problems[0]}")
    for data in splits.values():
        assert len(data.fingerprint) == 32
        for texts in (data.texts, data.labels.ids, data.labels.names, data.labels.texts, data.ids or ()):
            "".join(texts).encode()


def _read_inputs(name: str, folder: Path) -> None:
    from treetop.data.inputs import read_inputs

    file = next(iter(folder.iterdir()), folder / "input.txt")
    with contextlib.ExitStack() as stack:
        if name == "input_stdin":
            content = io.BytesIO(file.read_bytes() if file.exists() else b"")
            stack.callback(setattr, sys, "stdin", sys.stdin)
            sys.stdin = io.TextIOWrapper(content)
        for given in read_inputs("-" if name == "input_stdin" else str(file)):
            (given.text + (given.id or "")).encode()


def _child(pipe: Connection) -> None:
    """Answer cases until the parent hangs up."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # C libraries speak there before they die
    with tempfile.TemporaryDirectory() as scratch, contextlib.suppress(EOFError):
        while True:
            name, seed = pipe.recv()
            folder = Path(scratch, f"{name}-{seed}")
            folder.mkdir()
            try:
                answer = read_case(name, seed, folder), ""
            except BaseException as error:  # that is the finding
                answer = FOUND, _shown(error)
            pipe.send(answer)
            shutil.rmtree(folder, ignore_errors=True)


def _shown(error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-3:]
    where = " < ".join(f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in reversed(last))
    return f"{type(error).__name__}: {str(error)[:160]!a} at {where}"


class _Worker:
    """A child process and the case it works on."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_child, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self.case: tuple[str, int] | None = None
        self.since = 0.0

    def give(self, case: tuple[str, int]) -> None:
        self.case, self.since = case, time.monotonic()
        self.pipe.send(case)

    def answer(self) -> tuple[str, str] | None:
        """What became of the case; None while it is being read. The worker is dead after a crash or a hang."""
        try:
            if self.pipe.poll():
                result: tuple[str, str] = self.pipe.recv()
                return result
        except (EOFError, ConnectionResetError):
            self.process.join()
            return FOUND, f"the reading process died (exit status {self.process.exitcode})"
        if time.monotonic() - self.since > SECONDS + 30 * (self.process.exitcode is None and self.fresh):
            self.process.kill()
            self.process.join()
            return FOUND, f"no answer in {SECONDS} s"
        return None

    fresh = True  # the first case waits for imports


def fuzz(names: list[str], seeds: Iterator[int], *, seconds: float, count: int, workers: int) -> dict[str, Tally]:
    """Read mutations of all formats in turn until the time or the count is used up."""
    tallies = {name: Tally() for name in names}
    stop = time.monotonic() + seconds
    cases = ((name, seed) for _, seed in zip(range(count), seeds, strict=False) for name in names)
    pool = [_Worker() for _ in range(workers)]
    busy: list[_Worker] = []
    while pool or busy:
        while pool:
            case = next(cases, None) if time.monotonic() < stop else None
            if case is None:
                _end(pool.pop())
                continue
            busy.append(pool.pop())
            busy[-1].give(case)
        wait([worker.pipe for worker in busy], timeout=0.5)
        for worker in list(busy):
            result = worker.answer()
            if result is None or worker.case is None:
                continue
            busy.remove(worker)
            _count(tallies[worker.case[0]], worker.case[1], *result)
            worker.fresh = False
            pool.append(worker if worker.process.is_alive() else _Worker())
    return tallies


def _count(tally: Tally, seed: int, outcome: str, said: str) -> None:
    tally.outcomes[outcome] += 1
    if outcome == FOUND:
        tally.found[seed] = said


def _end(worker: _Worker) -> None:
    worker.pipe.close()
    worker.process.join()


def formats(listed: str) -> list[str]:
    """Names from a list with commas between; 'all' for every one."""
    names = list(CORPUS) if listed == "all" else listed.split(",")
    if unknown := [name for name in names if name not in CORPUS]:
        raise SystemExit(f"unknown format '{unknown[0]}'. Known are {', '.join(CORPUS)}.")
    return names


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--seconds", type=float, help="default 30, or no end where --count is given")
    parser.add_argument("--count", type=int, help="mutations for each format")
    parser.add_argument("--seed", type=int, default=0, help="of the first mutation; the next have the next numbers")
    parser.add_argument("--formats", default="all", help=", ".join(CORPUS))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", type=int, help="read the mutation of this seed here, with its traceback")
    options = parser.parse_args(arguments)
    names = formats(options.formats)
    if options.only is not None:
        for name in names:
            with tempfile.TemporaryDirectory() as scratch:
                print(f"{name} {options.only}: {read_case(name, options.only, Path(scratch))}")
        return 0
    seconds = options.seconds or (30.0 if options.count is None else float("inf"))
    seeds = iter(range(options.seed, sys.maxsize))
    tallies = fuzz(names, seeds, seconds=seconds, count=options.count or sys.maxsize, workers=options.workers)
    return report(tallies)


def report(tallies: dict[str, Tally]) -> int:
    """Print counts and findings; 1 where there are any."""
    line = "{:<20} {:>9} {:>9} {:>9}".format
    print(line("format", DATASET, REFUSED, FOUND))
    for name, tally in tallies.items():
        print(line(name, *(tally.outcomes[kind] for kind in (DATASET, REFUSED, FOUND))))
    for name, tally in tallies.items():
        for seed, said in list(tally.found.items())[:10]:
            print(f"{name} --only {seed}: {said}")
    return int(any(tally.found for tally in tallies.values()))


def unmutated(name: str) -> Any:
    """What reading the valid files of a format gives."""
    with tempfile.TemporaryDirectory() as scratch:
        return read_case(name, -1, Path(scratch))


if __name__ == "__main__":
    sys.exit(main())
