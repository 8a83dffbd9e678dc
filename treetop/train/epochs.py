"""The end of an epoch: figures on held-out documents, a line in the log and in the curve, early stopping."""

from __future__ import annotations

import time
from typing import Any

import torch

from treetop.core.log import logger
from treetop.tensors.devices import World
from treetop.train.batches import Plan
from treetop.train.journal import Journal
from treetop.train.state import State
from treetop.train.task import TrainConfig, Validation

SHARE, FREE = 0.1, 5.0  # of the run's time that figures nobody decides by may take; seconds that are always allowed


class Epochs:
    """Closes the epochs of a run of `total` steps."""

    def __init__(
        self, state: State, plan: Plan, config: TrainConfig, world: World, journal: Journal, total: int
    ) -> None:
        self.state, self.plan, self.config, self.world = state, plan, config, world
        self.journal, self.total = journal, total
        self._spent, self._decides = 0.0, True

    def ended(self, step: int) -> bool:
        """Whether this step is the last of an epoch, or of the run."""
        return (step + 1) % self.plan.steps == 0 or step + 1 == self.total

    def close(self, step: int, loss: float) -> bool:
        """Look at the weights that would be kept and say how good they are; True when training should stop."""
        seen = self._validated() if self._affordable(step) else None
        number = round((step + 1) / self.plan.steps, 2)
        line: dict[str, Any] = {"epoch": number, "step": step + 1}
        line |= {"seconds": round(float(self.state.numbers["seconds"]), 1), "loss": round(loss, 6)}
        self.journal.epoch(line | ({} if seen is None else {k: round(v, 2) for k, v in seen.figures.items()}))
        if self.world.rank == 0:
            figures = "" if seen is None else "".join(f", {name} {value:.2f}" for name, value in seen.figures.items())
            logger.info("%s: epoch %g of %g, loss %.4f%s", self.journal.name, number, self.config.epochs, loss, figures)
        return seen is not None and seen.score is not None and self._stops(seen.score)

    def _affordable(self, step: int) -> bool:
        """Whether to look: always where early stopping asks and at the end, else while it takes little of the time."""
        seconds = float(self.state.numbers["seconds"])
        looks = self._decides or step + 1 == self.total or self._spent <= max(FREE, SHARE * seconds)
        if self.world.size == 1:
            return looks
        return bool(self.world.sum(torch.tensor(int(looks))) > 0)  # all or none

    def _validated(self) -> Validation | None:
        started = time.monotonic()
        self.state.exchange()
        self.state.mode(False)
        with torch.no_grad():
            seen = self.state.task.validate()
        self.state.exchange()
        self.state.mode(True)
        self._decides = seen is not None and seen.score is not None
        self._spent += time.monotonic() - started
        return seen

    def _stops(self, score: float) -> bool:
        numbers = self.state.numbers
        if numbers["best"] is None or score > numbers["best"]:
            numbers["best"], numbers["bad"] = score, 0
            if self.config.patience:
                self.state.exchange()
                self.state.keep_best()
                self.state.exchange()
        else:
            numbers["bad"] += 1
        return 0 < self.config.patience <= int(numbers["bad"])
