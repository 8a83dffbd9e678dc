import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from kills import checkpoint_every_step
from toy_task import N, ToyTask
from treetop.core import curve, deadline
from treetop.core.config import build
from treetop.core.errors import ConfigError, ResourceError, TrainingError
from treetop.tensors.devices import ALONE
from treetop.train import checkpoint, epochs, journal, loop
from treetop.train.batches import Plan
from treetop.train.loop import train
from treetop.train.optim import ScheduleConfig
from treetop.train.task import TrainConfig, Validation

PLAN = Plan(np.arange(N), 8, seed=3)


def run(config=None, plan=PLAN, task=None, **more):
    task = task or ToyTask()
    result = train(task, plan, config or TrainConfig(epochs=4, average="ema"), **more)
    return task.weights(), result


def same(a, b, **tolerance):
    for name in a:
        if tolerance:
            torch.testing.assert_close(a[name], b[name], **tolerance, msg=name)
        else:
            assert torch.equal(a[name], b[name]), name


def test_training_learns_and_repeats_bit_for_bit():
    first, result = run(TrainConfig(epochs=30))
    second, _ = run(TrainConfig(epochs=30))
    same(first, second)
    _, short = run(TrainConfig(epochs=1))
    assert result.loss < 0.7 * short.loss
    assert result.steps == 150 and result.tokens == 30 * N


@pytest.mark.parametrize("parts", [2, 3, 8])
def test_accumulation_equals_the_big_batch(parts):
    whole, _ = run(TrainConfig(epochs=4), task=ToyTask(dropout=0.0))
    pieces, _ = run(TrainConfig(epochs=4, accumulate=parts), task=ToyTask(dropout=0.0))
    same(whole, pieces, rtol=1e-3, atol=1e-4)


def test_memory_that_runs_out_is_survived_by_halving():
    whole, _ = run(TrainConfig(epochs=2), task=ToyTask(dropout=0.0))
    pieces, result = run(TrainConfig(epochs=2), task=ToyTask(dropout=0.0, limit=3))
    assert result.micro_batches == 4
    same(whole, pieces, rtol=1e-3, atol=1e-4)
    with pytest.raises(ResourceError, match="out of memory, and the mini-batch cannot be split further"):
        run(task=ToyTask(limit=0))


def test_other_errors_are_not_taken_for_memory():
    task = ToyTask()
    task.step = lambda batch: (_ for _ in ()).throw(RuntimeError("shape mismatch"))
    with pytest.raises(RuntimeError, match="shape mismatch"):
        run(task=task)


def test_a_loss_that_is_no_number_names_its_batch():
    row = int(PLAN.epoch(1)[2][0])  # also met in epoch 0: the first one counts
    first = next(b.step for b in PLAN.walk(0, 5) if row in b.rows)
    with pytest.raises(
        TrainingError, match=f"the loss of step {first} is not a finite number .batch {first} of epoch 0"
    ):
        run(task=ToyTask(poison=row))


def test_early_stop_keeps_the_best_weights():
    best, result = run(TrainConfig(epochs=9, patience=2), task=ToyTask(scores=[1.0, 3.0, 2.0, 2.5, 9.0]))
    assert result.steps == 4 * PLAN.steps and result.best == 3.0
    second, _ = run(TrainConfig(epochs=2, patience=2), task=ToyTask(scores=[1.0, 3.0]))
    same(best, second)
    assert [line["score"] for line in result.history if "score" in line] == [1.0, 3.0, 2.0, 2.5]


def test_averages_are_means_of_late_weights():
    class Watch(ToyTask):
        seen = None

        def step(self, batch):
            self.seen = [*(self.seen or []), self.full.weight.clone()]
            return super().step(batch)

    plain = Watch()
    last, _ = run(TrainConfig(epochs=2), task=plain)
    after = [*plain.seen[1:], last["full"]]
    mean, _ = run(TrainConfig(epochs=2, average="swa", average_from=0.5))
    torch.testing.assert_close(mean["full"], torch.stack(after[5:]).mean(0), rtol=1e-5, atol=1e-6)
    moving, _ = run(TrainConfig(epochs=2, average="ema", ema_decay=0.5))
    expected = after[0]
    for i, weight in enumerate(after[1:], 1):
        expected = expected + max(1 / (i + 1), 0.5) * (weight - expected)
    torch.testing.assert_close(moving["full"], expected, rtol=1e-5, atol=1e-6)


def test_schedule_reaches_every_kind_of_weight():
    frozen, _ = run(TrainConfig(epochs=1, schedule=ScheduleConfig(kind="linear")))
    other, _ = run(TrainConfig(epochs=1))
    assert all(not torch.equal(frozen[name], other[name]) for name in frozen)


class Stop(Exception):
    pass


@pytest.mark.parametrize("stops", [[3], [1, 2, 9], [5, 5, 14]])
def test_resume_ends_in_the_same_bits(tmp_path, stops, monkeypatch):
    checkpoint_every_step(monkeypatch)
    config = TrainConfig(epochs=4, average="ema", patience=9, checkpoint_seconds=0.0)
    whole, _ = run(config, task=ToyTask(scores=[1.0, 0.5, 2.0, 1.5]))
    scores = [1.0, 0.5, 2.0, 1.5]
    for stop in stops:
        task = ToyTask(scores=scores[stop // PLAN.steps :])
        real = task.step

        def step(batch, stop=stop, real=real):
            if batch.step == stop:
                raise Stop
            return real(batch)

        task.step = step
        done = stop and any(tmp_path.glob("train-*"))
        task.scores = scores[(0 if not done else _step(tmp_path) // PLAN.steps) :]
        with pytest.raises(Stop):
            run(config, task=task, work=tmp_path)
    task = ToyTask(scores=scores[_step(tmp_path) // PLAN.steps :])
    resumed, result = run(config, task=task, work=tmp_path)
    same(whole, resumed)
    assert result.best == 2.0


def _step(folder):
    return max(json.loads(file.read_text())["config"]["step"] for file in folder.glob("train-*/part.json"))


def test_damaged_checkpoint_falls_back_to_the_other(tmp_path):
    config = TrainConfig(epochs=2, checkpoint_seconds=0.0)
    whole, _ = run(config, work=tmp_path)
    newest = max(tmp_path.glob("train-*/part.json"), key=lambda file: json.loads(file.read_text())["config"]["step"])
    arrays = newest.parent / "arrays.safetensors"
    raw = bytearray(arrays.read_bytes())
    raw[-1] ^= 1
    arrays.write_bytes(raw)
    resumed, _ = run(config, work=tmp_path)
    same(whole, resumed)


CHILD = """
import sys
sys.path[:0] = sys.argv[2:]
from test_loop import long_run
long_run(sys.argv[1])
"""


def long_run(folder):
    torch.set_num_threads(1)
    config = TrainConfig(epochs=60, average="swa", checkpoint_seconds=0.0)
    return run(config, task=slowed(0.01), work=Path(folder))[0]


def slowed(seconds):
    """A task whose steps take so long that there is time for checkpoints between them."""
    task = ToyTask()
    step = task.step
    task.step = lambda batch: (time.sleep(seconds), step(batch))[1]
    return task


def test_kill_9_at_random_moments(tmp_path):
    whole = run(TrainConfig(epochs=60, average="swa"))[0]
    for seconds in np.random.default_rng(int(time.time())).random(2) * 0.5:
        here = Path(__file__).parent
        process = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(tmp_path), str(here), str(here.parent / "helpers")]
        )
        begun = time.monotonic()
        while not (tmp_path / "train-0-b").exists() and process.poll() is None and time.monotonic() - begun < 100:
            time.sleep(0.01)
        time.sleep(seconds)
        process.kill()
        process.wait()
    assert _step(tmp_path) > 0
    same(whole, long_run(tmp_path))


def short_run(folder):
    """A run of about three seconds with the default settings of checkpoints."""
    torch.set_num_threads(1)
    return run(TrainConfig(epochs=20), task=slowed(0.03), work=Path(folder))


def test_a_short_run_with_default_settings_survives_a_kill(tmp_path):
    here = Path(__file__).parent
    child = CHILD.replace("long_run", "short_run")
    process = subprocess.Popen([sys.executable, "-c", child, str(tmp_path), str(here), str(here.parent / "helpers")])
    begun = time.monotonic()
    while not (tmp_path / "train-0-a").exists() and time.monotonic() - begun < 100:
        assert process.poll() is None, "it ended without a checkpoint"
        time.sleep(0.01)
    assert process.poll() is None, "it ended before it was killed"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert 0 < _step(tmp_path) < 20 * PLAN.steps
    resumed, result = short_run(tmp_path)
    same(run(TrainConfig(epochs=20))[0], resumed)
    assert result.history and min(line["step"] for line in result.history) > 10  # the first tenth was not repeated
    assert [point["epoch"] for point in curve.gather(tmp_path)] == [float(i) for i in range(1, 21)]


class Clock:
    """Time that passes when told to; a checkpoint takes `cost` seconds."""

    def __init__(self, monkeypatch, folder, *, cost, seconds=300.0, total=1000, size=0):
        self.now, self.cost = 0.0, cost
        monkeypatch.setattr(checkpoint.time, "monotonic", lambda: self.now)
        self.saver = checkpoint.Checkpoints(folder, "train", ALONE, seconds, total=total, size=size)
        monkeypatch.setattr(checkpoint, "write_part", lambda *_: setattr(self, "now", self.now + cost))

    def run(self, length, steps):
        """Steps behind which a checkpoint was written, in a run of `length` seconds."""
        written = []
        for step in range(1, steps + 1):
            self.now += length / steps
            if self.saver.due(step):
                self.saver.write({}, {"step": step})
                written.append(step)
        return written


@pytest.mark.parametrize(
    ("length", "cost", "size", "least", "most"),
    [
        (90, 0.1, 0, 9, 10),  # every tenth of the run
        (90, 1.5, 10**9, 1, 1),  # writing takes long: once
        (0.5, 0.1, 0, 0, 0),  # over before anything is worth it
        (90, 60.0, 10**10, 0, 0),  # would take longer than is allowed
        (3000, 1.0, 10**9, 10, 20),
        (30_000, 1.0, 10**9, 95, 110),  # every 300 seconds
        (3000, 30.0, 10**9, 1, 3),  # the first took much longer than its size said
    ],
)
def test_checkpoints_come_by_time_and_by_share_and_cost_little(tmp_path, monkeypatch, length, cost, size, least, most):
    written = Clock(monkeypatch, tmp_path, cost=cost, size=size).run(length, 1000)
    assert least <= len(written) <= most
    assert len(written) <= 1 or (len(written) - 1) * cost <= 0.021 * length


def test_epochs_leave_points_with_figures_whatever_they_cost(tmp_path, monkeypatch):
    monkeypatch.setattr(epochs, "FREE", 0.0)
    monkeypatch.setattr(epochs, "SHARE", 0.0)

    class Watched(ToyTask):
        def validate(self):
            time.sleep(0.001)
            return Validation({"P@1": 50.0}, self.scores)

    for decides in (1.0, None):  # early stopping looks every time, others at the first and the last epoch
        work = tmp_path / str(decides)
        work.mkdir()
        run(TrainConfig(epochs=4), task=Watched(scores=decides), work=work)
        points = curve.gather(work)
        assert [point["step"] for point in points] == [5, 10, 15, 20] and all("loss" in point for point in points)
        assert ["P@1" in point for point in points] == [True, bool(decides), bool(decides), True]


def test_steps_leave_lines_in_the_journal(tmp_path, monkeypatch):
    monkeypatch.setattr(journal, "SECONDS", 0.0)
    run(TrainConfig(epochs=2), work=tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text().splitlines()]
    assert len(lines) == 2 * PLAN.steps
    assert lines[-1]["step"] == 10 and lines[-1]["seconds_left"] == 0
    assert {"loss", "rate", "tokens_per_s", "memory"} <= lines[0].keys()


def test_journal_never_repeats_an_old_loss(tmp_path, monkeypatch):
    clock = itertools.count(0.0, 0.7)  # every look takes a while, so that it falls due before or behind a step
    monkeypatch.setattr(journal.time, "monotonic", lambda: next(clock))
    run(TrainConfig(epochs=8), work=tmp_path)
    losses = [json.loads(line)["loss"] for line in (tmp_path / "train.jsonl").read_text().splitlines()]
    assert len(losses) > 3 and len(set(losses)) == len(losses)


def test_a_last_step_that_breaks_the_weights_is_told():
    class Broken(ToyTask):
        def step(self, batch):
            return super().step(batch) + (self.net[0].weight * 0.0).sqrt().sum()  # 0, with a slope that is no number

    with pytest.raises(TrainingError, match=r"the last step left weights that are not finite \(net\."):
        run(TrainConfig(epochs=0.01), task=Broken())


@pytest.mark.parametrize("epochs", [0, -1.0, 1e300])
def test_epochs_that_train_nothing_or_never_end_are_refused(epochs):
    with pytest.raises(ConfigError, match=r"^train\.epochs: .* is out of range\. Allowed: 1e-06 to 1000000"):
        build(TrainConfig, {"epochs": epochs}, path="train")


class Slow(ToyTask):
    def loss(self, loaded):
        time.sleep(0.02)
        return super().loss(loaded)


def test_a_network_makes_the_steps_that_fit_the_time(tmp_path, caplog):
    with deadline.ending(steps=time.monotonic() + 0.6):
        _, result = run(TrainConfig(epochs=30), task=Slow(), work=tmp_path)
    assert 4 <= result.steps < 100 and result.seconds < 2.0
    assert "of 150 steps fit the time budget; the others are left out" in caplog.text
    points = curve.gather(tmp_path)
    assert points[-1]["step"] == result.steps  # the epoch it ended in is closed
    with deadline.ending(steps=time.monotonic() - 1):  # no time at all: one step
        assert run(TrainConfig(epochs=30), task=ToyTask())[1].steps == 1


def test_the_schedule_ends_with_the_last_step_that_fits(monkeypatch):
    seen = []
    monkeypatch.setattr(loop, "rate", lambda schedule, step, total: seen.append((step, total)) or 1.0)
    with deadline.ending(steps=time.monotonic() + 0.6):
        _, result = run(TrainConfig(epochs=30), task=Slow())
    assert seen[0] == (0, 150) and seen[-1][1] < 150 and abs(seen[-1][1] - result.steps) <= 3


def test_enough_time_changes_nothing():
    plain, _ = run(TrainConfig(epochs=4))
    with deadline.ending(steps=time.monotonic() + 600, stop=time.monotonic() + 900):
        same(plain, run(TrainConfig(epochs=4))[0])


def test_a_training_that_must_stop_stops():
    with deadline.ending(stop=time.monotonic() - 1), pytest.raises(deadline.TimeUpError, match="training: the time"):
        run()
