"""Two gloo processes on the CPU with label rows shared out give what one process gives, also after a stop."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

torch = pytest.importorskip("torch")

HERE = Path(__file__).parent
CHILD = """
import sys
sys.path[:0] = sys.argv[2:]
from test_processes import child
child(sys.argv[1])
"""


class Stop(Exception):
    pass


def run(world, folder, seen=None, stop=None):
    from toy_task import N, ToyTask
    from treetop.train import checkpoint
    from treetop.train.batches import Plan
    from treetop.train.loop import train
    from treetop.train.task import TrainConfig

    task = ToyTask(dropout=0.0, world=world)
    real = task.step

    def step(batch):
        if batch.step == stop:
            raise Stop
        if seen is not None:
            seen.append(batch.step)
        return real(batch)

    task.step = step
    plan = Plan(np.arange(N), 8, seed=3, rank=world.rank, size=world.size)
    config = TrainConfig(epochs=3, accumulate=2, clip_norm=1.0, checkpoint_seconds=0.0)
    with mock.patch.object(checkpoint, "COST", np.inf):  # one after every step, whatever it costs
        result = train(task, plan, config, world=world, work=folder)
    return {name: value.numpy() for name, value in task.weights().items()} | {"loss": np.array(result.loss)}


def child(folder):
    from treetop.tensors.devices import World

    torch.set_num_threads(1)
    world = World.join(torch.device("cpu"))
    out = Path(folder)
    np.savez(out / f"whole-{world.rank}.npz", **run(world, out / "a"))
    try:
        run(world, out / "b", stop=7)
        raise AssertionError("did not stop")
    except Stop:
        world.wait()
    np.savez(out / f"resumed-{world.rank}.npz", **run(world, out / "b"))
    if world.rank == 0:
        shutil.copytree(out / "c", out / "d")
    world.wait()
    np.savez(out / f"grown-{world.rank}.npz", **run(world, out / "d"))
    try:
        run(world, out / "e", stop=7)
    except Stop:
        world.wait()


def test_two_processes_equal_one_and_resume(tmp_path):
    from treetop.tensors.devices import ALONE

    for name in ("a", "b", "c", "e", "one"):
        (tmp_path / name).mkdir()
    with pytest.raises(Stop):
        run(ALONE, tmp_path / "c", stop=7)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    base = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
    children = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD, str(tmp_path), str(HERE), str(HERE.parent / "helpers")],
            env={**base, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"},
        )
        for rank in range(2)
    ]
    one = run(ALONE, tmp_path / "one")
    assert [process.wait(200) for process in children] == [0, 0]
    two, again = ([np.load(tmp_path / f"{kind}-{rank}.npz") for rank in range(2)] for kind in ("whole", "resumed"))
    for name in one:
        if name in {"full", "bias", "rows"}:
            together = np.concatenate([two[0][name], two[1][name]])
        else:
            together = two[0][name]
            assert np.array_equal(two[0][name], two[1][name]), name
        np.testing.assert_allclose(together, one[name], rtol=1e-3, atol=1e-4, err_msg=name)
        if name != "loss":  # shown every few steps only, so a resumed run may show another step's
            assert all(np.array_equal(again[rank][name], two[rank][name]) for rank in range(2)), name
    check_other_numbers(tmp_path, one)


def check_other_numbers(folder, one):
    """A run of one process goes on with two, and one of two with one."""
    from treetop.tensors.devices import ALONE

    grown = [np.load(folder / f"grown-{rank}.npz") for rank in range(2)]
    shrunk = run(ALONE, folder / "e", seen := [])
    assert min(seen) == 7  # the step that was not made
    for name in set(one) - {"loss"}:
        divided = name in {"full", "bias", "rows"}
        together = np.concatenate([part[name] for part in grown]) if divided else grown[0][name]
        np.testing.assert_allclose(together, one[name], rtol=1e-3, atol=1e-4, err_msg=name)
        np.testing.assert_allclose(shrunk[name], one[name], rtol=1e-3, atol=1e-4, err_msg=name)
