"""Compiling is told where it happens, once, and only where nothing on disk spares it."""

import subprocess
import sys

from command import ENV
from treetop.kernels.linear import descent
from treetop.kernels.runtime import cache
from treetop.training import plan

ASK = """
import sys, numba, numpy as np
from treetop.core.log import show
show()
from treetop.kernels import metrics
numba.njit(lambda x: x + 1)(1)  # not ours
print("loaded", flush=True)
top = np.zeros((1, 10), np.int32)
metrics.find_hits(top, np.array([0, 1]), np.zeros(1, np.int32), np.empty(top.shape, np.bool_))
if sys.argv[1:]:  # one that the first process did not compile
    from treetop.kernels.text import scanner
    scanner.hash_terms(np.zeros(1, np.uint8), np.array([0, 1]), True)
"""
SENTENCE = "compiling numeric kernels for this machine; this takes up to a minute, once\n"


def test_the_first_compilation_is_told(tmp_path):
    env = {name: value for name, value in ENV.items() if name != "NUMBA_CACHE_DIR"} | {"TREETOP_CACHE": str(tmp_path)}
    command = [sys.executable, "-c", ASK]
    first, second, more = (
        subprocess.run([*command, *words], capture_output=True, text=True, env=env) for words in ([], [], ["more"])
    )
    assert first.returncode == second.returncode == 0 and first.stderr == SENTENCE and second.stderr == "", first.stderr
    assert more.returncode == 0 and more.stderr == ""  # once per machine, whatever is compiled later
    [kept] = tmp_path.rglob("announced")
    assert any(file.name.startswith("scanner-hash_terms-") for file in kept.parent.iterdir())


def test_compiling_counts_in_the_forecast_until_it_is_done(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "folder", lambda: tmp_path)
    tree, neighbours = plan("xr_linear"), plan("neighbours")
    assert tree.compiling > neighbours.compiling > 0
    (tmp_path / "metrics-find_hits-0123").touch()
    assert tree.compiling > neighbours.compiling == 0
    (tmp_path / "descent-solve_group-0123").touch()
    assert tree.compiling == 0
    monkeypatch.setattr(cache, "folder", lambda: None)  # compiled in every process
    assert tree.compiling > neighbours.compiling > 0


def test_the_kernel_whose_code_is_looked_for_is_one_of_the_solver():
    kernel = descent.solve_group._cache  # type: ignore[attr-defined]
    assert kernel._name(()).startswith("descent-solve_group-")
