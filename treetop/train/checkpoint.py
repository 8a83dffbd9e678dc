"""Training state that survives `kill -9`: arrays and a few numbers in the project's own format, never pickled.

Two generations are written alternately, so that an intact one always exists, and several processes that were killed
between their writes still share one. A run may go on with another number of processes, where all can read the files of
those before: rows that were divided among these are divided anew.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from treetop.core.errors import ModelError
from treetop.core.log import logger
from treetop.core.store import Part, check_folder, read_part, write_manifest, write_part
from treetop.core.target import replacing
from treetop.core.work import of_process
from treetop.tensors.devices import World
from treetop.tensors.handover import to_array

KIND = "train.checkpoint.1"


SHARE = 0.1  # of the run after which a checkpoint is due, however short that is
COST = 0.02  # of the time that writing may take
START, SPEED = 0.02, 1e9  # what the first one is expected to cost: seconds, and bytes a second


class Checkpoints:
    """The checkpoints of one training run of one process: `total` steps, about `size` bytes each."""

    def __init__(self, folder: Path, name: str, world: World, seconds: float, *, total: int, size: int) -> None:
        self.folder, self.name = folder, name
        self.folders = self._folders(world.rank)
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
            write_part(fresh, Part(KIND, numbers | {"processes": self.world.size}, arrays))
            write_manifest(fresh, {"stage": "checkpoint"})
        self.next = 1 - self.next
        self._last, self._last_step = time.monotonic(), int(numbers["step"])
        self._cost = self._last - started
        self.world.wait()

    def read(self, divided: Mapping[str, int]) -> Part | None:
        """The newest sound checkpoint that every process has; `divided` are tensors by label, and their rows in all."""
        own = [self._sound(folder) for folder in self.folders]
        found = [None if part is None or _processes(part) != self.world.size else [part] for part in own]
        found += [self._of_all(generation) for generation in (0, 1)]
        steps = [-1 if parts is None else int(parts[0].config["step"]) for parts in found]
        if self.world.size > 1:
            others = self.world.gather(torch.tensor([steps])).view(-1, 2, 2).tolist()
            common = [[all(step in row[kind] for row in others) for step in steps] for kind in (0, 1)]
            steps = [step if common[place // 2][place] else -1 for place, step in enumerate(steps)]
        best = int(np.argmax(steps))
        parts = found[best]
        if parts is None or steps[best] < 0:
            return None
        self._last_step = steps[best]
        if best < 2:
            self.next = 1 - best
            return parts[0]
        self.next = max((0, 1), key=lambda place: own[place] is None)
        logger.info("training goes on in %d processes, after %d before", self.world.size, len(parts))
        return _joined(parts, divided, self.world)

    def _folders(self, rank: int) -> list[Path]:
        return [of_process(self.folder, rank) / f"{self.name}-{rank}-{generation}" for generation in "ab"]

    def _of_all(self, generation: int) -> list[Part] | None:
        """The checkpoints of all processes of an earlier run of another number of them; None: there are none."""
        first = self._sound(self._folders(0)[generation])
        if first is None or _processes(first) == self.world.size:
            return None
        parts = [first]
        for rank in range(1, _processes(first)):
            found = [self._sound(folder) for folder in self._folders(rank)]
            same = [part for part in found if part is not None and part.config["step"] == first.config["step"]]
            if not same or _processes(same[0]) != _processes(first):
                return None
            parts.append(same[0])
        return parts

    def _sound(self, folder: Path) -> Part | None:
        if not folder.exists():
            return None
        try:
            check_folder(folder, check="full")
            return read_part(folder)
        except ModelError as error:
            logger.warning("checkpoint %s is damaged and is skipped (%s)", folder.name, error)
            return None


def _processes(part: Part) -> int:
    """Of how many processes a checkpoint is."""
    return int(part.config["processes"])


def _joined(parts: list[Part], divided: Mapping[str, int], world: World) -> Part:
    """The share of this process in what the checkpoints of all processes of another number hold."""
    arrays = dict(parts[0].arrays)
    for name in divided.keys() & arrays.keys():
        (low, high), start, pieces = world.share(divided[name]), 0, []
        for part in parts:
            rows = part.arrays[name]
            pieces.append(rows[max(low - start, 0) : max(high - start, 0)])
            start += len(rows)
        arrays[name] = np.concatenate(pieces)
    return Part(KIND, parts[0].config, arrays)
