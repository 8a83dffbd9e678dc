"""Twenty random `kill -9` during one training: the resumed run ends in the model of an undisturbed one. `make slow`."""

import shutil
import subprocess
import sys
import time

import numpy as np
import pytest

pytestmark = pytest.mark.slow
KILLS = 20


def command(out, *more):
    return [sys.executable, "-m", "treetop", "-q", "fit", "xr_linear", "metamath", "--out", str(out), *more]


def test_twenty_kills_change_nothing(tmp_path):
    subprocess.run(command(tmp_path / "warm"), check=True)  # compiles what is not compiled yet
    shutil.rmtree(tmp_path / "warm")
    started = time.monotonic()
    subprocess.run(command(tmp_path / "whole"), check=True)
    seconds = time.monotonic() - started
    random = np.random.default_rng(0)
    killed = 0
    for attempt in range(40):
        more = ["--resume", "--threads", str(1 + attempt % 2)] if (tmp_path / "cut.work").exists() else []
        process = subprocess.Popen(command(tmp_path / "cut", *more))
        time.sleep(float(random.uniform(0.1, 0.9) * seconds))
        if process.poll() is not None:  # it was done before the kill: start over, the stages are gone
            assert process.returncode == 0
            assert (tmp_path / "cut/manifest.json").read_bytes() == (tmp_path / "whole/manifest.json").read_bytes()
            subprocess.run(["rm", "-r", str(tmp_path / "cut")], check=True)
            continue
        process.kill()
        process.wait()
        killed += 1
        if (tmp_path / "cut").exists():  # killed behind its last step: the model is there, whole
            assert (tmp_path / "cut/manifest.json").read_bytes() == (tmp_path / "whole/manifest.json").read_bytes()
            shutil.rmtree(tmp_path / "cut")
            shutil.rmtree(tmp_path / "cut.work", ignore_errors=True)
        if killed == KILLS:
            break
    more = ["--resume"] if (tmp_path / "cut.work").exists() else []
    subprocess.run(command(tmp_path / "cut", *more), check=True)
    assert killed == KILLS
    assert (tmp_path / "cut/manifest.json").read_bytes() == (tmp_path / "whole/manifest.json").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir() if not p.name.startswith(".")) == ["cut", "whole"]
