"""Which rows come when, and how they reach the device.

The order is a function of (seed, epoch), so a position in it is one number. Tokens and targets lie on the device as
flat arrays; a batch is gathered there from row numbers. The host knows every length beforehand, so nothing waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
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


@dataclass(frozen=True)
class Plan:
    """The batches of a run: `rows` shuffled anew each epoch, cut into `batch` rows.

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
    held = np.random.default_rng([seed, 2]).permutation(len(rows))[:count]
    inside = np.zeros(len(rows), bool)
    inside[held] = True
    return rows[~inside], rows[inside]


def send(array: NDArray[np.generic], device: torch.device) -> Tensor:
    """A host array on the device, without waiting for earlier work there."""
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


@dataclass(frozen=True, eq=False)
class Packed:
    """Token sequences end to end without padding, shortest first.

    Row i of the batch is sequence `back[i]`, or the mean of the sequences whose `owner` it is.
    """

    ids: Tensor  # (tokens,) int64
    positions: Tensor  # (tokens,) int64, from 0 in each sequence
    starts: Tensor  # (sequences + 1,) int32
    sequence: Tensor  # (tokens,) int64, which sequence a token belongs to
    back: Tensor  # (sequences,) int64
    lengths: Rows  # (sequences,) on the host, ascending
    n_rows: int
    owner: Tensor | None = None  # (sequences,) int64, when a row may have several

    def __len__(self) -> int:
        return len(self.lengths)


class TokenRows:
    """All token sequences of a data set on the device; `gather` packs those of a batch.

    `rows` says which sequences belong to a row where that may be several (windows of a long text).
    """

    def __init__(self, ids: NDArray[np.generic], offsets: Rows, device: torch.device, rows: Rows | None = None) -> None:
        held = np.ascontiguousarray(ids.astype(np.int32, copy=False))
        self.ids = torch.from_numpy(held if held.flags.writeable else held.copy()).to(device)
        self.starts = offsets[:-1]
        self.lengths: Rows = np.diff(offsets)
        self.rows = rows
        self.device = device

    def count(self, rows: Rows) -> int:
        """Tokens of these rows."""
        return int(self.lengths[self._sequences(rows)[0]].sum())

    def _sequences(self, rows: Rows) -> tuple[Rows, Rows | None]:
        if self.rows is None:
            return rows, None
        first, counts = self.rows[rows], self.rows[rows + 1] - self.rows[rows]
        owner = np.repeat(np.arange(len(rows)), counts)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        return first[owner] + within, owner

    def gather(self, rows: Rows) -> Packed:
        n_rows = len(rows)
        rows, owner = self._sequences(rows)
        lengths = self.lengths[rows]
        order = np.argsort(lengths, kind="stable")
        lengths = lengths[order]
        ends = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(lengths, out=ends[1:])
        back = np.empty(len(rows), np.int64)
        back[order] = np.arange(len(rows))
        # One message to the device: where sequences start in the store and in the batch, how long they are.
        sent = send(np.concatenate([self.starts[rows][order] - ends[:-1], lengths, back, ends]), self.device)
        shift, counts, back_, ends_ = torch.split(sent, [len(rows)] * 3 + [len(rows) + 1])
        total = int(ends[-1])
        sequence = torch.repeat_interleave(counts, output_size=total)
        place = torch.arange(total, device=self.device)
        return Packed(
            self.ids[place + shift[sequence]].long(), place - ends_[sequence], ends_.int(), sequence, back_, lengths,
            n_rows, None if owner is None else send(owner[order], self.device),
        )  # fmt: skip


class TargetRows:
    """Targets (csr) on the device; `gather` gives the triples of a batch."""

    def __init__(
        self, indptr: Rows, indices: NDArray[np.generic], values: NDArray[np.float32], device: torch.device
    ) -> None:
        self.starts = np.asarray(indptr[:-1], np.int64)
        self.counts = np.diff(np.asarray(indptr, np.int64))
        self.columns = torch.from_numpy(np.array(indices, np.int64)).to(device)
        self.values = torch.from_numpy(np.array(values, np.float32)).to(device)
        self.device = device

    def gather(self, rows: Rows) -> Targets:
        counts = self.counts[rows]
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        sent = send(np.concatenate([self.starts[rows] - (ends - counts), counts]), self.device)
        shift, counts_ = torch.split(sent, [len(rows)] * 2)
        row = torch.repeat_interleave(counts_, output_size=total)
        place = torch.arange(total, device=self.device) + shift[row]
        return Targets(row, self.columns[place], self.values[place], len(rows))


@dataclass(frozen=True, eq=False)
class Targets:
    """Positive (row, column, value) triples of a batch, rows ascending."""

    row: Tensor  # (positives,) int64
    column: Tensor  # (positives,) int64
    value: Tensor  # (positives,) float32
    n_rows: int

    def dense(self, width: int) -> Tensor:
        """(n_rows, width) float32; of several values for a place the largest counts."""
        made = torch.zeros(self.n_rows * width, device=self.row.device)
        return made.scatter_reduce_(0, self.row * width + self.column, self.value, "amax").view(self.n_rows, width)

    def mapped(self, parent: Tensor) -> Targets:
        """Targets of the level above: a node is as positive as its best child."""
        return Targets(self.row, parent[self.column], self.value, self.n_rows)
