"""Which rows come when, and how they reach the device.

The order is a function of (seed, epoch), so a position in it is one number. Tokens and targets lie on the device as
flat arrays; a batch is gathered there from a short message. The host knows every length beforehand, so nothing waits.
Asked for static shapes, a batch is rounded up with empty sequences and void targets, so that few shapes occur and a
recorded step can be replayed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Rows = NDArray[np.int64]
Order = Literal["random", "length"]
TOKENS, SPARE = 2048, 128  # static shapes: tokens are rounded up to a multiple, spread over spare sequences
POSITIVES = 4096  # and positives to a multiple of this


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
class Loaded:
    """A batch on the device; batches with the same `key` differ in the tensors' values only (None: never alike)."""

    batch: Batch
    tensors: tuple[Tensor, ...] = ()
    key: Hashable = None
    facts: tuple[Any, ...] = ()  # what the host knows of the tensors


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


class Shape(NamedTuple):
    """What the host knows of packed sequences."""

    rows: int
    sequences: int
    tokens: int
    longest: int  # at least the longest sequence
    windows: bool  # a row may have several sequences


@dataclass(frozen=True, eq=False)
class Packed:
    """Token sequences end to end without padding, shortest first; spare ones may be empty.

    Row i of the batch is sequence `back[i]`, or the mean of the sequences whose `owner` it is.
    """

    ids: Tensor  # (tokens,) int64
    positions: Tensor  # (tokens,) int64, from 0 in each sequence
    starts: Tensor  # (sequences + 1,) int32
    sequence: Tensor  # (tokens,) int64, which sequence a token belongs to
    back: Tensor  # (rows,) int64, or (sequences,) owners where there are windows
    shape: Shape


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
        if len(rows) == 1 and self.rows is None and self.device.type == "cpu":
            return self._one(int(rows[0]))
        message, shape = self.describe(rows)
        return self.packed(send(message, self.device), shape)

    def _one(self, row: int) -> Packed:
        """A text by itself waits for every call: here they are few."""
        start, n = int(self.starts[row]), int(self.lengths[row])
        zero, ends = torch.zeros(max(1, n), dtype=torch.int64), torch.tensor([0, n], dtype=torch.int32)
        ids = self.ids[start : start + n].long()
        return Packed(ids, torch.arange(n), ends, zero[:n], zero[:1], Shape(1, 1, n, n, False))

    def describe(self, rows: Rows, static: bool = False) -> tuple[Rows, Shape]:
        """The message from which `packed` gathers these rows on the device."""
        chosen, owner = self._sequences(rows)
        order = np.argsort(self.lengths[chosen], kind="stable")
        chosen = chosen[order]
        lengths, starts = self.lengths[chosen], self.starts[chosen]
        longest = int(lengths[-1]) if len(lengths) else 0
        if owner is None:
            back = np.empty(len(rows), np.int64)
            back[order] = np.arange(len(rows))
        else:
            back = owner[order]
        if static:
            spare = -len(chosen) % SPARE + SPARE if owner is not None else SPARE
            missing = -int(lengths.sum()) % TOKENS
            extra = missing // spare + (np.arange(spare) < missing % spare)
            lengths, starts = np.concatenate([lengths, extra]), np.concatenate([starts, np.zeros(spare, np.int64)])
            back = back if owner is None else np.concatenate([back, np.full(spare, len(rows))])
            longest = max(64, 1 << (longest - 1).bit_length())
        ends = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=ends[1:])
        shape = Shape(len(rows), len(lengths), int(ends[-1]), longest, owner is not None)
        return np.concatenate([starts - ends[:-1], lengths, ends, back]), shape

    def packed(self, message: Tensor, shape: Shape) -> Packed:
        n = shape.sequences
        shift, counts, ends, back = torch.split(message, [n, n, n + 1, len(message) - 3 * n - 1])
        sequence = torch.repeat_interleave(counts, output_size=shape.tokens)
        place = torch.arange(shape.tokens, device=self.device)
        ids = self.ids[(place + shift[sequence]).clamp_max(len(self.ids) - 1)].long()
        return Packed(ids, place - ends[sequence], ends.int(), sequence, back, shape)


class TargetRows:
    """Targets (csr) on the device; `gather` gives the triples of a batch."""

    def __init__(
        self, indptr: Rows, indices: NDArray[np.generic], values: NDArray[np.float32], device: torch.device
    ) -> None:
        self.starts = np.asarray(indptr[:-1], np.int64)
        self.counts = np.diff(np.asarray(indptr, np.int64))
        # One void entry behind the last: what rounding up points to.
        self.columns = torch.from_numpy(np.append(np.asarray(indices, np.int64), -1)).to(device)
        self.values = torch.from_numpy(np.append(np.asarray(values, np.float32), np.float32(0))).to(device)
        self.device = device

    def gather(self, rows: Rows) -> Targets:
        message, total = self.describe(rows)
        return self.targets(send(message, self.device), len(rows), total)

    def describe(self, rows: Rows, static: bool = False) -> tuple[Rows, int]:
        """The message from which `targets` gathers these rows, and how many triples that gives."""
        counts = self.counts[rows]
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        rounded = max(1, -(-total // POSITIVES)) * POSITIVES if static else total
        shift = np.append(self.starts[rows] - (ends - counts), 0)
        return np.concatenate([shift, np.append(counts, rounded - total)]), rounded

    def targets(self, message: Tensor, n_rows: int, total: int) -> Targets:
        shift, counts = torch.split(message, [n_rows + 1] * 2)
        row = torch.repeat_interleave(counts, output_size=total)
        place = torch.arange(total, device=self.device) + shift[row]
        place = torch.where(row < n_rows, place, len(self.columns) - 1)
        return Targets(row.clamp_max(n_rows - 1), self.columns[place], self.values[place], n_rows)


@dataclass(frozen=True, eq=False)
class Targets:
    """Positive (row, column, value) triples of a batch; a void one has column -1 and value 0."""

    row: Tensor  # (positives,) int64
    column: Tensor  # (positives,) int64
    value: Tensor  # (positives,) float32
    n_rows: int

    def dense(self, width: int) -> Tensor:
        """(n_rows, width) float32; of several values for a place the largest counts."""
        made = torch.zeros(self.n_rows * width, device=self.row.device)
        place = self.row * width + self.column.clamp_min(0)
        return made.scatter_reduce_(0, place, self.value, "amax").view(self.n_rows, width)

    def mapped(self, parent: Tensor) -> Targets:
        """Targets of the level above: a node is as positive as its best child."""
        return Targets(self.row, parent[self.column], self.value, self.n_rows)
