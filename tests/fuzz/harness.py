"""Runs the cases of one fuzzing part in child processes and counts what came of them.

A part is a `Part`: `prepare(home, options)` writes what cases need (in a child of its own), `case(Case)` does one case.
A case ends well when it returns the name of its outcome or raises a TreetopError. Every other exception is a finding,
and so are a crash, a hang and memory beyond the limit, with the number that repeats it: `--seed S --only N`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "benchmarks/results/fuzz.jsonl"
MOST_FINDINGS = 20  # a run with more ends early


@dataclasses.dataclass(frozen=True)
class Case:
    """One case: its number, the randomness that belongs to it, the folder `prepare` filled, the options of the run."""

    number: int
    random: np.random.Generator
    home: Path
    options: argparse.Namespace


@dataclasses.dataclass(frozen=True)
class Part:
    """One part of the fuzzing; `batch` cases share a child, each may take `patience` seconds and `memory` bytes."""

    name: str
    case: Callable[[Case], str]
    prepare: Callable[[Path, argparse.Namespace], object] = lambda home, options: None
    arguments: Callable[[argparse.ArgumentParser], object] = lambda parser: None
    total: Callable[[Path, argparse.Namespace], int] | None = None  # of a part that has only so many cases
    batch: int = 200
    patience: float = 60.0
    memory: int = 4 << 30  # beyond what the child has when it starts


@dataclasses.dataclass
class Outcomes:
    """What came of the cases of a part."""

    part: str
    cases: int = 0
    outcomes: Counter[str] = dataclasses.field(default_factory=Counter)
    findings: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    seconds: float = 0.0

    def add(self, message: dict[str, Any]) -> None:
        """Count one finished case."""
        self.cases += 1
        self.outcomes[message["outcome"]] += 1
        if "detail" in message:
            self.findings.append({key: message[key] for key in ("case", "outcome", "detail")})

    def summary(self) -> str:
        counts = ", ".join(f"{n:,} {name}" for name, n in self.outcomes.most_common())
        return f"{self.part}: {self.cases:,} cases in {self.seconds:.0f} s, {len(self.findings)} findings ({counts})"


def run(part: Part, options: argparse.Namespace) -> Outcomes:
    """Run cases until the time or the number of cases is used up."""
    result = Outcomes(part.name)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"treetop-fuzz-{part.name}.") as folder:
        home = Path(folder)
        _prepare(part, home, options)
        limited = options.seconds or options.cases or part.total or options.only is not None
        end = time.monotonic() + (options.seconds or 60.0) if options.seconds or not limited else float("inf")
        last = _last(part, home, options)
        number = options.only if options.only is not None else 0
        while number < last and time.monotonic() < end and len(result.findings) < MOST_FINDINGS:
            numbers = range(number, min(last, number + part.batch))
            number = _batch(part, home, options, numbers, end, result)
    result.seconds = time.monotonic() - started
    return result


def _last(part: Part, home: Path, options: argparse.Namespace) -> int:
    if options.only is not None:
        return int(options.only) + 1
    most = options.cases or 2**62
    return min(most, part.total(home, options)) if part.total is not None else most


def _prepare(part: Part, home: Path, options: argparse.Namespace) -> None:
    """In a child, so that this process stays one from which others can be forked."""
    child = os.fork()
    if not child:
        code = 1
        try:
            part.prepare(home, options)
            code = 0
        except BaseException:  # shown here, as nothing above may see it
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise SystemExit(f"{part.name}: its preparation failed.")


def _batch(part: Part, home: Path, options: argparse.Namespace, numbers: range, end: float, result: Outcomes) -> int:
    """Do these cases in one child; returns the number of the first that is still to be done."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        _child(part, home, options, numbers, end, writing)
    os.close(writing)
    at, outcome = numbers.start, None
    with os.fdopen(reading, "rb", buffering=0) as source:
        waiting = b""
        while True:
            if not select.select([source], [], [], part.patience)[0]:
                outcome = f"no answer within {part.patience:.0f} s"
                os.kill(child, signal.SIGKILL)
                break
            if not (piece := source.read(1 << 16)):
                break
            *lines, waiting = (waiting + piece).split(b"\n")
            for line in lines:
                result.add(json.loads(line))
                at += 1
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if outcome is None and code:
        outcome = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    if outcome is not None and at < numbers.stop:
        result.add({"case": at, "outcome": outcome, "detail": "the process ended"})
        at += 1
    return at


def _child(part: Part, home: Path, options: argparse.Namespace, numbers: range, end: float, writing: int) -> None:
    """Do cases and tell of each in one line; never returns."""
    if hasattr(signal, "SIGINT"):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    _limit(part.memory)
    for number in numbers:
        if time.monotonic() >= end:
            break
        random = np.random.default_rng([options.seed, number])
        message = _outcome(part, Case(number, random, home, options))
        os.write(writing, json.dumps({"case": number, **message}).encode() + b"\n")
    sys.stdout.flush()
    os._exit(0)


def _outcome(part: Part, case: Case) -> dict[str, str]:
    from treetop.core.errors import TreetopError

    try:
        return {"outcome": part.case(case)}
    except TreetopError as error:
        return {"outcome": type(error).__name__}
    except BaseException as error:  # whatever it is: no case may end so
        frames = "".join(traceback.format_exception(error)[-6:])
        return {"outcome": f"finding: {type(error).__name__}", "detail": frames[-3000:]}


def _limit(memory: int) -> None:
    statm = Path("/proc/self/statm")
    if statm.exists():
        taken = int(statm.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + memory, taken + memory))


# --- the command line -----------------------------------------------------------------------------------------------


def parser(parts: list[Part]) -> argparse.ArgumentParser:
    """Options all parts share, and those of each."""
    made = argparse.ArgumentParser(description="Random input through the real entry points.")
    made.add_argument(
        "--seconds", type=float, default=0.0, help="time for the cases of each part; 60 where nothing else limits them"
    )
    made.add_argument("--cases", type=int, default=0, help="number of cases of each part; 0: no limit")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--only", type=int, help="one case, by its number")
    made.add_argument("--record", action="store_true", help=f"append the counts to {RECORD.relative_to(ROOT)}")
    for part in parts:
        part.arguments(made)
    return made


def main(*parts: Part, module: str) -> None:
    """Run parts from the command line, `module` being the one started; exit code 1 where there are findings."""
    _with_bounds_checks(module)
    options = parser(list(parts)).parse_args()
    failed = False
    for part in parts:
        result = run(part, options)
        print(result.summary(), flush=True)
        for finding in result.findings:
            print(f"  {finding['outcome']}: repeat with --seed {options.seed} --only {finding['case']}")
            print("    " + "\n    ".join(line[:400] for line in finding["detail"].strip().splitlines()[-9:]))
        failed |= bool(result.findings)
        if options.record:
            record(result, options, module)
    raise SystemExit(int(failed))


def _with_bounds_checks(module: str) -> None:
    """Start again with kernels that check every index; compiled code keeps apart from that of other runs."""
    if "NUMBA_BOUNDSCHECK" in os.environ:
        return
    os.environ |= {"NUMBA_BOUNDSCHECK": "1", "TREETOP_CACHE": str(ROOT / "build/fuzz-cache")}
    os.environ |= {"GOMP_SPINCOUNT": "0", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    os.execv(sys.executable, [sys.executable, "-m", module, *sys.argv[1:]])


def record(result: Outcomes, options: argparse.Namespace, module: str) -> None:
    """Append one line of counts."""
    packages = ("treetop", "numpy", "scipy", "numba")
    line = {
        "part": result.part,
        "cases": result.cases,
        "findings": len(result.findings),
        "outcomes": dict(sorted(result.outcomes.items())),
        "seconds": round(result.seconds, 1),
        "seed": options.seed,
        "bounds_checks": os.environ.get("NUMBA_BOUNDSCHECK") == "1",
        "command": " ".join(["python -m", module, *sys.argv[1:]]),
        "commit": _git("rev-parse", "--short", "HEAD") + ("+" if _git("status", "--porcelain", "-uno") else ""),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
    }
    with RECORD.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()


def run_module(name: str, *words: object, seconds: float = 300.0) -> subprocess.CompletedProcess[str]:
    """`python -m tests.fuzz.<name> words...` for a test: the suite's own compiled kernels, a process of its own."""
    env = {"NUMBA_BOUNDSCHECK": "0", **os.environ}
    command = [sys.executable, "-m", f"tests.fuzz.{name}", *map(str, words)]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=seconds)
