"""The order of training rows, and batches on the device.

The order is a function of (seed, epoch), so a position in it is one number.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Rows = NDArray[np.int64]
Order = Literal["random", "length"]


@dataclass(frozen=True)
class Batch:
    """Rows of one backward pass; `total` counts the rows of the whole step, which losses divide by."""

    rows: Rows  # of this process
    everyone: Rows  # of all processes, in rank order
    total: int
    step: int

    def split(self, parts: int, size: int = 1) -> Iterator[Batch]:
        """`parts` micro-batches (those of all `size` processes cut alike); empty ones are left out."""
        if parts == 1:
            yield self
            return
        for rows, everyone in zip(
            np.array_split(self.rows, parts),
            np.array_split(self.everyone.reshape(size, -1), parts, axis=1),
            strict=True,
        ):
            if len(rows):
                yield Batch(rows, everyone.reshape(-1), self.total, self.step)


@dataclass(frozen=True, eq=False)
class Message:
    """Tensors on the device by name, and what the host knows of them; equal facts mean equal shapes."""

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    facts: Hashable = ()

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]


@dataclass(frozen=True, eq=False)
class Loaded:
    """A batch on the device: one named message for each part of the task that asked for something.

    Batches with the same `key` differ in the tensors' values only; None: never alike, so the step is not recorded.
    """

    batch: Batch
    parts: Mapping[str, Message] = field(default_factory=dict)
    recordable: bool = False

    @property
    def key(self) -> Hashable:
        if not self.recordable:
            return None
        return self.batch.total, *((name, message.facts) for name, message in self.parts.items())

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors in a fixed order."""
        return [tensor for message in self.parts.values() for tensor in message.tensors.values()]

    def cloned(self) -> Loaded:
        """The same in memory of its own, into which later batches of this key are copied."""
        parts = {
            name: Message({key: tensor.clone() for key, tensor in message.tensors.items()}, message.facts)
            for name, message in self.parts.items()
        }
        return replace(self, parts=parts)


@dataclass(frozen=True)
class Plan:
    """The batches of a run: `rows` shuffled in each epoch, split into batches of `batch` rows.

    `order="length"` sorts stretches of 64 batches by `lengths` before cutting, for encoders that must pad.
    """

    rows: Rows
    batch: int
    seed: int
    order: Order = "random"
    lengths: Rows | None = None
    rank: int = 0
    size: int = 1

    @property
    def steps(self) -> int:
        """Batches in one epoch; in a world of several the last one may lose a few rows to stay divisible."""
        full, rest = divmod(len(self.rows), self.batch)
        return full + (rest >= self.size)

    def epoch(self, number: int) -> list[Rows]:
        """The batches of an epoch."""
        rng = np.random.default_rng([self.seed, 1, number])
        rows = self.rows[rng.permutation(len(self.rows))]
        if self.order == "length" and self.lengths is not None:
            stretch = 64 * self.batch
            parts = [rows[i : i + stretch] for i in range(0, len(rows), stretch)]
            rows = np.concatenate([part[np.argsort(self.lengths[part], kind="stable")] for part in parts])
        cut = [rows[i : i + self.batch] for i in range(0, len(rows), self.batch)]
        cut = [part[: len(part) // self.size * self.size] for part in cut if len(part) >= self.size]
        if self.order == "length":
            cut = [cut[i] for i in rng.permutation(len(cut))]
        return cut

    def walk(self, start: int, stop: int) -> Iterator[Batch]:
        """Batches number `start` to `stop` of the run, whatever epochs they fall into."""
        cut: list[Rows] = []
        for step in range(start, stop):
            epoch, place = divmod(step, self.steps)
            if not cut or place == 0:
                cut = self.epoch(epoch)
            rows = cut[place]
            own = rows.reshape(self.size, -1)[self.rank]
            yield Batch(own, rows, len(rows), step)


def split_off(rows: Rows, share: float, seed: int, *, at_most: int = 4000) -> tuple[Rows, Rows]:
    """(training rows, validation rows): a random share of `rows`, cut from training data and never from test."""
    count = min(at_most, round(share * len(rows)))
    if count == 0:
        return rows, rows[:0]
    chosen = np.random.default_rng([seed, 2]).permutation(len(rows))[:count]
    inside = np.zeros(len(rows), bool)
    inside[chosen] = True
    return rows[~inside], rows[inside]
