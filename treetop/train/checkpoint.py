"""Training state that survives `kill -9`: arrays and a few numbers in the project's own format, never pickled.

Two generations are written alternately, so that an intact one always exists, and several processes that were killed
between their writes still share one.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from treetop.core.errors import ModelError
from treetop.core.log import logger
from treetop.core.store import Part, check_folder, read_part, write_manifest, write_part
from treetop.core.target import replacing
from treetop.tensors.devices import World
from treetop.tensors.handover import to_array

KIND = "train.checkpoint.1"


SHARE = 0.1  # of the run after which a checkpoint is due, however short that is
COST = 0.02  # of the time that writing may take
START, SPEED = 0.02, 1e9  # what the first one is expected to cost: seconds, and bytes a second


class Checkpoints:
    """The checkpoints of one training run of one process: `total` steps, about `size` bytes each."""

    def __init__(self, folder: Path, name: str, world: World, seconds: float, *, total: int, size: int) -> None:
        self.folders = [folder / f"{name}-{world.rank}-{generation}" for generation in "ab"]
        self.world, self.seconds, self.share = world, seconds, SHARE * total
        self.next = 0
        self._last, self._last_step, self._cost = time.monotonic(), 0, 0.0
        self._expected = START + size / SPEED

    def due(self, step: int) -> bool:
        """Whether one is due: after `seconds` or a tenth of the run, but not where writing would take too long."""
        waited = time.monotonic() - self._last
        late = waited >= max(self.seconds, self._cost / COST)
        if step - self._last_step >= self.share:
            late = late or waited >= (self._cost or self._expected) / COST
        if self.world.size == 1:
            return late
        return bool(self.world.sum(torch.tensor(int(late))) > 0)  # all or none

    def write(self, tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None:
        started = time.monotonic()
        arrays = {name: to_array(tensor) for name, tensor in tensors.items()}
        with replacing(self.folders[self.next]) as fresh:
            write_part(fresh, Part(KIND, numbers, arrays))
            write_manifest(fresh, {"stage": "checkpoint"})
        self.next = 1 - self.next
        self._last, self._last_step = time.monotonic(), int(numbers["step"])
        self._cost = self._last - started
        self.world.wait()

    def read(self) -> Part | None:
        """The newest sound checkpoint that every process has."""
        found = [self._sound(folder) for folder in self.folders]
        steps = [-1 if part is None else int(part.config["step"]) for part in found]
        if self.world.size > 1:
            pairs = self.world.gather(torch.tensor([steps]))
            common = [step for step in steps if step >= 0 and all(step in row for row in pairs.tolist())]
            steps = [step if step in common else -1 for step in steps]
        best = int(np.argmax(steps))
        if steps[best] < 0:
            return None
        self.next, self._last_step = 1 - best, steps[best]
        return found[best]

    def _sound(self, folder: Path) -> Part | None:
        if not folder.exists():
            return None
        try:
            check_folder(folder, check="full")
            return read_part(folder)
        except ModelError as error:
            logger.warning("checkpoint %s is damaged and is skipped (%s)", folder.name, error)
            return None
