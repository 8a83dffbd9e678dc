"""A disk that fails at any write of a save, a training or a label change leaves the old model or the new one."""

import pytest

from . import io_faults


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("io")
    io_faults.prepare(folder, None)
    return folder


def writes(home, operation):
    made = [at for at, call in io_faults.calls(home)[operation] if call not in io_faults.READING]
    assert made
    return [(at, io_faults.KINDS[place % len(io_faults.KINDS)]) for place, at in enumerate(made)]  # kinds in turn


@pytest.mark.parametrize("operation", io_faults.OPERATIONS)
def test_a_third_of_the_writes_and_the_last_ones_may_fail(home, operation):
    every = writes(home, operation)
    for at, kind in sorted({*every[::3], *every[-6:]}):
        io_faults.attempt(home, operation, kind, at)


@pytest.mark.slow
@pytest.mark.parametrize("operation", io_faults.OPERATIONS)
def test_every_write_may_fail(home, operation):
    """Each in one way; `python -m tests.fuzz.io_faults` tries all ways at each."""
    for at, kind in writes(home, operation):
        io_faults.attempt(home, operation, kind, at)
