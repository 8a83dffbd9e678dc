"""A disk that fails at any write of a save, a training or a label change leaves the old model or the new one."""

import pytest

from . import io_faults


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("io")
    io_faults.prepare(folder, None)
    return folder


@pytest.mark.parametrize("operation", io_faults.OPERATIONS)
def test_every_write_may_fail(home, operation):
    writes = [at for at, call in io_faults.calls(home)[operation] if call not in io_faults.READING]
    assert writes
    for place, at in enumerate(
        writes
    ):  # each kind of fault in turn; `python -m tests.fuzz.io_faults` tries all at each
        io_faults.attempt(home, operation, io_faults.KINDS[place % len(io_faults.KINDS)], at)
