"""A shell completes recipes, presets and settings as the command itself answers it."""

import os
import subprocess
import sys

import pytest

from command import ENV


def completed(line):
    """What bash would offer."""
    asked = {"_TREETOP_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    code = "import sys; sys.argv[0] = 'treetop'; from treetop.cli.main import app; app(prog_name='treetop')"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **ENV, **asked}
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("treetop fit xr_", ["xr_linear", "xr_transformer"]),
        ("treetop fit gandalf+xr_l", ["gandalf+xr_linear"]),
        ("treetop fit unidec data --preset c", ["cpu"]),
        ("treetop fit xr_linear data --set linear.be", ["linear.beam="]),
        ("treetop fit no_such data --set linear.be", []),
        ("treetop recipes dism", ["dismec"]),
    ],
)
def test_names_are_completed(line, expected):
    assert completed(line) == expected
