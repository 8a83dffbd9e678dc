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


class Checkpoints:
    """The checkpoints of one training run of one process."""

    def __init__(self, folder: Path, name: str, world: World, seconds: float) -> None:
        self.folders = [folder / f"{name}-{world.rank}-{generation}" for generation in "ab"]
        self.world, self.seconds = world, seconds
        self.next = 0
        self._last, self._cost = time.monotonic(), 0.0

    def due(self) -> bool:
        """Whether one is due: after `seconds`, but writing may take at most a twentieth of the run."""
        late = time.monotonic() - self._last >= max(self.seconds, 20.0 * self._cost)
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
        self._last = time.monotonic()
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
        self.next = 1 - best
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
