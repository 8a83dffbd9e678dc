"""Compiling is told where it happens, once, and only where nothing on disk spares it."""

import subprocess
import sys

from command import ENV

ASK = """
import numba, numpy as np
from treetop.core.log import show
show()
from treetop.kernels import metrics
numba.njit(lambda x: x + 1)(1)  # not ours
print("loaded", flush=True)
top = np.zeros((1, 10), np.int32)
metrics.find_hits(top, np.array([0, 1]), np.zeros(1, np.int32), np.empty(top.shape, np.bool_))
"""
SENTENCE = "compiling numeric kernels for this machine; this takes up to a minute, once\n"


def test_the_first_compilation_is_told(tmp_path):
    env = {name: value for name, value in ENV.items() if name != "NUMBA_CACHE_DIR"} | {"TREETOP_CACHE": str(tmp_path)}
    first, second = (
        subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, env=env) for _ in range(2)
    )
    assert first.returncode == second.returncode == 0 and first.stderr == SENTENCE and second.stderr == "", first.stderr
