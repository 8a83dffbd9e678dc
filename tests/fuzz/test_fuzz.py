"""Some seconds of fuzzing in the default suite, always with the same seed; `make fuzz` runs it for longer."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from . import harness

FAULTS = """
import os, signal, time
from fuzz.harness import Part, main
from treetop.core.errors import ModelError

def case(case):
    if case.number == 0:
        assert "this answer" == "that answer"
    if case.number == 1:
        raise KeyError("not ours")
    if case.number == 2:
        os.kill(os.getpid(), signal.SIGSEGV)
    if case.number == 3:
        time.sleep(60)
    if case.number == 4:
        bytearray(1 << 30)
    if case.number == 5:
        raise ModelError("ours")
    return "answered"

main(Part("faults", case, total=lambda home, options: 8, patience=2.0, memory=1 << 28), module="faults")
"""


@pytest.mark.parametrize("part", ["settings", "replacement"])
def test_nothing_but_errors_of_ours_and_right_answers(part):
    pytest.importorskip("torch")
    done = harness.run_module(part, "--seconds", 5)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_kind_of_failure_is_a_finding_with_its_number():
    env = {
        **os.environ,
        "NUMBA_BOUNDSCHECK": "0",
        "PYTHONPATH": os.pathsep.join([str(harness.ROOT), str(Path(__file__).parents[1])]),
    }
    done = subprocess.run([sys.executable, "-c", FAULTS], env=env, capture_output=True, text=True)
    findings = [line.strip() for line in done.stdout.splitlines() if "repeat with" in line]
    kinds = ("finding: AssertionError", "finding: KeyError", "SIGSEGV", "no answer within 2 s", "finding: MemoryError")
    assert findings == [f"{kind}: repeat with --seed 0 --only {number}" for number, kind in enumerate(kinds)]
    assert "8 cases" in done.stdout and "2 answered" in done.stdout and "1 ModelError" in done.stdout
    assert done.returncode == 1
