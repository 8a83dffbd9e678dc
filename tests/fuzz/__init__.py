"""Fuzzing: random input through the real entry points; the outcome is a TreetopError or a right answer.

    python -m tests.fuzz --seconds 60 --seed 0     # all parts; `make fuzz` does the same
    python -m tests.fuzz.settings --seconds 60     # one part

`harness.py` runs cases in child processes, so that a crash, a hang and a lack of memory are findings too. Each other
file is one part: what it prepares, and what one case does.
"""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / "helpers"), str(TESTS)]  # `import toy`, also when no pytest is around
