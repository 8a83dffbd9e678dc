"""The loop: batches in, weights out, the same weights after any number of kills.

Random numbers of a step are a function of (seed, step), the order of rows of (seed, epoch); so weights, moments and
the step number are the whole state. The device is asked for a number only every few seconds.
"""

from __future__ import annotations

import functools
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from treetop.core import deadline, log
from treetop.core.errors import InputError, ResourceError, TrainingError
from treetop.tensors import devices
from treetop.tensors.devices import ALONE, World
from treetop.train.batches import Batch, Loaded, Plan
from treetop.train.checkpoint import Checkpoints
from treetop.train.epochs import Epochs
from treetop.train.journal import Journal
from treetop.train.optim import rate
from treetop.train.replay import Replay
from treetop.train.state import State
from treetop.train.task import Result, Task, TrainConfig

START = 3  # steps of a run that say nothing about how long the others take


def train(
    task: Task,
    plan: Plan,
    config: TrainConfig,
    *,
    world: World = ALONE,
    work: Path | None = None,
    name: str = "train",
) -> Result:
    """Train `task` over `plan`; with a `work` folder a killed run resumes from its last checkpoint."""
    if plan.steps == 0:
        raise InputError(f"training: {len(plan.rows)} training rows. Give more texts, or hold out fewer.")
    run = _Run(task, plan, config, world, work, name)
    devices_ = [task.device] if task.device.type == "cuda" else []
    # On the CPU blocks of labels run side by side instead.
    with torch.random.fork_rng(devices=devices_), devices.one_cpu_thread():
        if task.device.type != "cuda":
            return run.go()
        stream = _stream(task.device)
        with torch.cuda.stream(stream):
            if config.cuda_graphs and world.size == 1:
                run.replay = Replay(run.body, stream)
            try:
                return run.go()
            finally:
                stream.synchronize()
                run.replay = None  # recordings hold memory


@functools.cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """One stream per device for all trainings: matrix libraries keep a workspace of 65 MB for each stream seen."""
    return torch.cuda.Stream(device)


class _Run:
    def __init__(self, task: Task, plan: Plan, config: TrainConfig, world: World, work: Path | None, name: str) -> None:
        self.task, self.plan, self.config, self.world = task, plan, config, world
        self.total = self.planned = max(1, round(config.epochs * plan.steps))
        self.state = State(task, config)
        self.saver = None
        if work is not None:
            seconds = config.checkpoint_seconds
            self.saver = Checkpoints(work, name, world, seconds, total=self.total, size=self.state.size)
        self.journal = Journal(work, name, task.device, world.rank)
        self.epochs = Epochs(self.state, plan, config, world, self.journal, self.total)
        self.loss = torch.zeros((), device=task.device)
        self.timed = (0.0, 0)  # when, and after how many steps, timing began
        self.fresh = False  # whether `loss` is of the step just made
        self.replay: Replay | None = None
        self.broken = torch.full((), -1, dtype=torch.int64, device=task.device)

    @property
    def numbers(self) -> dict[str, Any]:
        """Those a checkpoint keeps."""
        return self.state.numbers

    def go(self) -> Result:
        part = self.saver.read(self.state.divided()) if self.saver is not None else None
        if part is not None:
            self.state.restore(part)
            log.logger.info("training resumes at step %d of %d", self.numbers["step"], self.total)
        started = time.monotonic() - float(self.numbers["seconds"])
        begin = int(self.numbers["step"])
        self.journal.begin(begin, self.total, int(self.numbers["tokens"]))
        self.state.mode(True)
        with log.progress("training", self.total) as bar:
            bar.step(begin)
            for batch in self.plan.walk(begin, self.total):
                self._step(batch)
                self.numbers["seconds"] = time.monotonic() - started
                bar.step()
                self._report(batch, bar)
                deadline.check("training")
                self._fit_time(batch.step + 1 - begin, batch.step + 1)
                if self.epochs.ended(batch.step) and self._close_epoch(batch.step):
                    break
                if batch.step + 1 >= self.total:
                    break
                if self.saver is not None and self.saver.due(batch.step + 1):
                    self._check(batch.step)
                    self.saver.write(self.state.tensors(), self.numbers)
        self._check(int(self.numbers["step"]) - 1)
        self.state.finish()
        self.numbers["seconds"] = time.monotonic() - started
        return Result(
            int(self.numbers["step"]),
            float(self.numbers["seconds"]),
            int(self.numbers["tokens"]),
            float(self.loss),
            self.numbers["best"],
            int(self.numbers["micro"]),
            devices.peak_memory(self.task.device),
            self.journal.lines,
        )

    def _fit_time(self, made: int, done: int) -> None:
        """Where a time budget is short, plan fewer steps: the schedule then ends with the last of them.

        The first steps compile and load, so they do not count. Several processes would have to agree, and do not try.
        """
        left = deadline.seconds_for_steps()
        if left == math.inf or self.world.size > 1:
            return
        now = time.monotonic()
        if made <= START:
            self.timed = (now, made)
        since, first = self.timed
        each = (now - since) / (made - first) if made > first else 0.0
        fits = done + int(left / each) if each and left > 0 else self.planned if left > 0 else done
        total = max(done, min(self.planned, fits))
        if total < self.total == self.planned:
            log.logger.warning(
                "%s: about %d of %d steps fit the time budget; the others are left out", self.journal.name, total,
                self.planned,
            )  # fmt: skip
        self.total = self.epochs.total = total

    # --- one step ---

    def _step(self, batch: Batch) -> None:
        wanted = self._wants_value(batch.step)
        while True:
            try:
                loss = self._update(batch, wanted)
                break
            except (RuntimeError, MemoryError) as error:
                if not devices.is_out_of_memory(error):
                    raise
                self._shrink(len(batch.rows))
        self.fresh = wanted
        if wanted:
            self.loss = loss
        self.broken = torch.where((self.broken < 0) & ~torch.isfinite(loss), batch.step, self.broken)
        self._take_average(batch.step)
        self.numbers["step"] = batch.step + 1
        self.numbers["tokens"] += self.task.tokens(batch.everyone)

    def _wants_value(self, step: int) -> bool:
        """Whether this step's loss is computed as a number: gradients do not need it, people do now and then."""
        often = self.task.device.type != "cuda" and step % 8 == 0
        return often or self.journal.due() or step == 0 or step + 1 == self.total

    def _update(self, batch: Batch, wanted: bool) -> Tensor:
        """One step, replayed where it was recorded."""
        # Per-step seeds make dropout repeatable after a resume, and differ between processes.
        devices.seed((self.plan.seed << 32) + batch.step * 1024 + self.world.rank, self.task.device)
        factor = rate(self.config.schedule, batch.step, self.total)
        micro = int(self.numbers["micro"])
        self.state.optimiser.rates.set(factor)
        for table in self.task.tables.values():
            table.prepare(factor, fuse=micro == 1, value=wanted)
        if self.replay is not None and micro == 1 and not wanted:
            loaded = self.task.load(batch, static=True)
            loss = self.replay.run(loaded)
            return self.body(loaded) if loss is None else loss
        loss = torch.zeros((), device=self.task.device)
        for part in batch.split(micro, self.world.size):
            loss += self._gradients(self.task.load(part, static=False))
        self.world.sum_all(self.state.optimiser.all_gradients() if self.world.size > 1 else [])
        self._apply()
        return self.world.sum(loss)

    def body(self, loaded: Loaded) -> Tensor:
        """A whole step of one batch."""
        loss = self._gradients(loaded)
        self._apply()
        return loss

    def _gradients(self, loaded: Loaded) -> Tensor:
        share = self.task.loss(loaded)
        if share.requires_grad:  # not where a frozen encoder meets a table that updates itself
            share.backward()
        self.state.optimiser.collect()
        return share.detach()

    def _apply(self) -> None:
        self.state.optimiser.step()
        for table in self.task.tables.values():
            table.apply()

    def _shrink(self, rows: int) -> None:
        """Out of memory: drop partial results and continue with micro-batches of half the size."""
        self.replay = None
        self.state.optimiser.forget()
        for table in self.task.tables.values():
            table.forget()
        devices.free_memory(self.task.device)
        micro = int(self.numbers["micro"])
        if micro >= rows or self.world.size > 1:
            raise ResourceError(
                "training: out of memory, and the mini-batch cannot be split further. "
                "Use a smaller batch, shorter texts (max_length) or a smaller encoder."
            )
        self.numbers["micro"] = min(rows, 2 * micro)
        log.logger.warning("training: memory ran out; now %d micro-batches per step", self.numbers["micro"])

    def _take_average(self, step: int) -> None:
        kind, every = self.config.average, self.config.average_every
        if kind == "none" or step % every:
            return
        if kind == "ema" or step >= self.config.average_from * self.total:
            self.state.take_average()

    # --- looking at it ---

    def _report(self, batch: Batch, bar: log.Progress) -> None:
        if self.fresh and self.journal.due():  # due only now: the next step will bring its loss
            self._check(batch.step)
            factor = rate(self.config.schedule, batch.step, self.total)
            line = self.journal.write(batch.step + 1, float(self.loss), factor, int(self.numbers["tokens"]))
            bar.note(f"loss {line['loss']:.4f}, {line['tokens_per_s']:,} tokens/s, {line['memory'] / 2**30:.1f} GiB")

    def _check(self, step: int) -> None:
        """Refuse to continue with a loss that is not finite; names the first batch where it happened."""
        first = int(self.broken)
        if first < 0:
            return
        rows = next(iter(self.plan.walk(first, first + 1))).everyone
        shown = ", ".join(str(row) for row in np.sort(rows)[:10].tolist())
        raise TrainingError(
            f"training: the loss of step {first} is not a finite number (batch {first % self.plan.steps} of epoch "
            f"{first // self.plan.steps}, rows {shown}{', ...' if len(rows) > 10 else ''}; seen at step {step}). "
            "Lower the learning rate, set clip_norm=1.0, or look at these rows."
        )

    def _close_epoch(self, step: int) -> bool:
        self._check(step)
        return self.epochs.close(step, float(self.loss))
