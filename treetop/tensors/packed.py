"""Token sequences end to end on the device: a batch is gathered there from a short message.

The host knows every length beforehand, so nothing waits. Asked for static shapes, a batch is rounded up with empty
sequences, so that few shapes occur and a recorded step can be replayed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from treetop.tensors.handover import send

Rows = NDArray[np.int64]
TOKENS, SPARE = 2048, 128  # static shapes: tokens are rounded up to a multiple, spread over spare sequences


class Shape(NamedTuple):
    """What the host knows of packed sequences."""

    rows: int
    sequences: int
    tokens: int
    longest: int  # at least the longest sequence
    windows: bool  # a row may have several sequences


@dataclass(frozen=True, eq=False)
class Packed:
    """Token sequences end to end without padding, shortest first; padding sequences are empty.

    Row i of the batch is sequence `back[i]`, or the mean of the sequences whose `owner` it is.
    """

    ids: Tensor  # (tokens,) int64
    positions: Tensor  # (tokens,) int64, from 0 in each sequence
    starts: Tensor  # (sequences + 1,) int32
    sequence: Tensor  # (tokens,) int64, which sequence a token belongs to
    back: Tensor  # (rows,) int64, or (sequences,) owners where there are windows
    shape: Shape
    vectors: Tensor | None = None  # (tokens, width) word vectors to read in place of those of `ids`


class TokenRows:
    """All token sequences of a data set on the device; `gather` packs those of a batch.

    `rows` says which sequences belong to a row where that may be several (windows of a long text).
    """

    def __init__(self, ids: NDArray[np.generic], offsets: Rows, device: torch.device, rows: Rows | None = None) -> None:
        tokens = np.ascontiguousarray(ids.astype(np.int32, copy=False))
        self.ids = torch.from_numpy(tokens if tokens.flags.writeable else tokens.copy()).to(device)
        self.starts = offsets[:-1]
        self.lengths: Rows = np.diff(offsets)
        self.rows = rows
        self.device = device

    def count(self, rows: Rows) -> int:
        """Tokens of these rows."""
        return int(self.lengths[self._sequences(rows)[0]].sum())

    def counts(self, rows: Rows) -> Rows:
        """(n,) tokens of each of these rows."""
        sequences, owner = self._sequences(rows)
        lengths = np.asarray(self.lengths[sequences], np.int64)
        return lengths if owner is None else np.bincount(owner, lengths, len(rows)).astype(np.int64)

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
