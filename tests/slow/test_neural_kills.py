"""Ten random `kill -9` while `treetop fit` trains a network on the CPU: the same bytes in the end. `make slow`."""

import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
import toy_encoder

pytestmark = pytest.mark.slow
KILLS = 10


RECIPES = {
    "lightxml": ["clusters=tree", "tree.max_leaf=50", "beam=16", "projection_dim=16"],
    "cascadexml": ["ranker=both", "resolutions=[64,512]", "layers=[[1],[1],[2]]"],
    "xr_transformer": ["min_steps_per_epoch=20", "preliminary_tree.top_branching=32"],
    "unidec": ["pool.size=256", "pool.mine_from=1", "pool.mine_every=2"],
}


def command(recipe, encoder, out, *more):
    settings = [
        f"encoder.model={encoder}", "encoder.max_length=24", "train.epochs=8.0", "train.batch_size=64",
        "train.checkpoint_seconds=0.0", *RECIPES[recipe],
    ]  # fmt: skip
    given = [part for item in settings for part in ("--set", item)]
    return [
        sys.executable, "-m", "treetop", "-q", "fit", recipe, "metamath", "--out", str(out), "--device", "cpu",
        *given, *more,
    ]  # fmt: skip


def newest(work):
    """When the last stage or checkpoint was put in place."""
    return max((folder.stat().st_mtime_ns for folder in work.glob("[!.]*")), default=0)


@pytest.mark.parametrize("recipe", RECIPES)
def test_ten_kills_change_nothing(recipe, tmp_path):
    encoder = toy_encoder.write_encoder(tmp_path / "encoder")
    subprocess.run(command(recipe, encoder, tmp_path / "whole"), check=True)
    random = np.random.default_rng(0)
    work = tmp_path / "cut.work"
    for _ in range(KILLS):
        seen = newest(work)
        process = subprocess.Popen(command(recipe, encoder, tmp_path / "cut", *(["--resume"] if work.exists() else [])))
        while newest(work) == seen:  # it got further than the one before
            assert process.poll() is None, "it ended before it was killed"
            time.sleep(0.02)
        time.sleep(float(random.uniform(0.0, 1.0)))
        assert process.poll() is None, "it ended before it was killed"
        process.kill()
        process.wait()
    subprocess.run(command(recipe, encoder, tmp_path / "cut", "--resume"), check=True)
    assert (tmp_path / "cut/manifest.json").read_bytes() == (tmp_path / "whole/manifest.json").read_bytes()
    assert not work.exists()
